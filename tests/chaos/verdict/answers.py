"""Checks that each call was answered once, with the outcome of its row.

Calls whose clients left need no answer, nor do calls whose servers were in trouble.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from mcp_app.states import Status
from tests.chaos.clients.stdio import STDIO
from tests.chaos.ledger import Call, Ledger
from tests.chaos.rows import Request, Rows

Troubled = Callable[[int, float, float], bool]
"""Returns whether the server with this number failed to serve during any part of a time."""
AROUND: Final = 3.0
"""Seconds before and after a call in which trouble at its server explains a missing answer."""


def findings(troubled: Troubled, ledger: Ledger, rows: Rows) -> Iterator[str]:
    by_tag = {request.tag: request for request in rows.requests if request.tag}
    for call in ledger.calls:
        row = by_tag.get(call.tag)
        for wrong in (*_of(troubled, call, row), *_doors(call, row)):
            story = f"{row.status} {row.cancel_cause} {row.id}" if row else "no row"
            said = f"{call.kind} {call.tool}, {call.plan}; {call.fate} {call.note!r}; {story}"
            yield f"client {call.tag} ({said}): {wrong}"
    known = {call.tag for call in ledger.calls}
    for request in rows.requests:
        if request.tag and request.tag not in known:
            yield f"request {request.id} has the tag {request.tag}, which no client used"


def _of(troubled: Troubled, call: Call, row: Request | None) -> Iterator[str]:
    if call.responses > 1:
        yield f"it was answered {call.responses} times"
    if call.fate in ("pending", "silent"):
        yield "it was never answered"
    elif call.fate == "answered":
        yield from _answered(call, row)
    elif call.fate == "refused":
        yield from _refused(call, row)
    elif call.fate == "cut" and not _explained(troubled, call, row):
        yield "its connection ended without an answer, and its server was well"


def _answered(call: Call, row: Request | None) -> Iterator[str]:
    if row is None:
        if not (call.answer or {}).get("isError"):
            yield f"it was answered with what no row has: {_short(call.answer)}"
        return
    if call.error is not None:
        if row.protocol_error is None:
            yield f"its task failed with {_short(call.error)}"
        return
    if call.answer is None:
        if row.status != Status.CANCELLED:
            yield "its task has no result"
        return
    owed = row.result or {}
    if _said(call.answer) != _said(owed):
        yield f"it was told {_short(call.answer)}; its row has {_short(owed)}"


def _refused(call: Call, row: Request | None) -> Iterator[str]:
    if call.http >= 500 or call.http in (200, 0, 429, 404, 400):
        if row is None or row.status in (Status.FAILED, Status.CANCELLED, Status.LOST):
            return
        if row.cancel_requested_at is not None:
            return
    yield f"it was refused ({call.note}), and its row is {row.status if row else 'missing'}"


def _explained(troubled: Troubled, call: Call, row: Request | None) -> bool:
    """Return whether a missing answer is explained.

    The stream of a session's call just ends if its client cancelled or abandoned the call. Otherwise a server must have
    been in trouble.
    """
    if row is not None and row.cancel_requested_at is not None and row.cancel_cause in ("client", "abandoned"):
        return True
    if call.server == STDIO:
        return False
    since, until = call.sent_at - AROUND, call.ended_at + AROUND
    return any(troubled(number, since, until) for number in {call.server, *call.others})


def _doors(call: Call, row: Request | None) -> Iterator[str]:
    for said in call.doors:
        door, _, rest = said.partition(" ")
        if door == "command" and row is not None and rest.startswith(f"{row.id}: 0:") and not row.cancel_requested_at:
            yield f"the command said that it was cancelled: {said}"


def _said(result: dict[str, Any]) -> tuple[str, bool]:
    return json.dumps(result.get("content"), sort_keys=True), bool(result.get("isError"))


def _short(value: object) -> str:
    return json.dumps(value)[:200]
