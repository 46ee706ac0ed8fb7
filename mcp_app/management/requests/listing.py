"""`mcp requests`: lists requests, or shows one with its history.

It shows what the admin shows to users who may see payloads, after the site's redaction.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet

from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.management import terminal
from mcp_app.management.requests import request_ids, request_rows
from mcp_app.models import Cancellation, Request, RequestEvent
from mcp_app.presentation.cancellation_story import ATTEMPTS, describe_attempts
from mcp_app.presentation.facts import facts, payloads, traceback
from mcp_app.presentation.formatting import Excerpt, between, excerpt
from mcp_app.presentation.timeline import LINES, timeline
from mcp_app.safe_text import safe_json_text, safe_text
from mcp_app.states import OPEN

DEFAULT_LIMIT: Final = 50
PAYLOAD_CHARS: Final = 4_000
HEADS: Final = ("ID", "TOOL", "STATUS", "PROGRESS", "AGE", "TOOK", "CALLER", "WORKER", "CANCEL")
FLEXIBLE: Final = (1, 3, 6, 7, 8)
NONE_SUCH: Final = "There are no such requests."
NONE_OPEN: Final = "No request is open; --all lists ended requests."

Say = Callable[[str], object]


class UnknownRequestError(Exception):
    """There is no such request."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The requests to list. Without `statuses` the open ones, or all with `everything`. `since` is in seconds."""

    everything: bool = False
    statuses: Sequence[str] = ()
    tool: str | None = None
    principal: str | None = None
    """A principal, as for `mcp cancel`."""
    since: float | None = None
    limit: int = DEFAULT_LIMIT


def show_list(selection: Selection, say: Say, *, columns: int | None) -> bool:
    """Print a table, newest first, at most `columns` cells wide. Return whether there are more requests."""
    rows = list(_selected(selection)[: selection.limit + 1])
    shown = rows[: selection.limit]
    if not shown:
        say(NONE_SUCH if _is_narrowed(selection) else NONE_OPEN)
        return False
    now, known = clock.now(), request_rows.processes(shown)
    cells = [
        (
            request_rows.short_id(row),
            terminal.one_line(row.tool),
            request_rows.status(row),
            request_rows.progress(row),
            between(row.submitted_at, now),
            request_rows.took(row, now),
            request_rows.caller(row),
            request_rows.worker(row, known),
            request_rows.cancelled(row),
        )
        for row in shown
    ]
    say(terminal.table(HEADS, cells, columns, FLEXIBLE))
    return len(rows) > len(shown)


def write_list(selection: Selection, say: Say) -> None:
    """Print a JSON array."""
    say(safe_json_text([request_rows.as_json(row) for row in _selected(selection)[: selection.limit]], indent=2))


def show_one(text: str, say: Say) -> None:
    """Print a request with its payloads, cancellation and events. Raises `UnknownRequestError`."""
    row = _find(text)
    say(f"{terminal.one_line(row.tool)}: {request_rows.status(row)}")
    say(f"  request {row.pk}")
    if row.parent is not None:
        say(f"  started by {row.parent}")
    fields = list(facts(row))
    width = max(len(fact.name) for fact in fields)
    for fact in fields:
        say(f"  {fact.name:<{width}}  {terminal.one_line(fact.words)}")
    for payload in payloads(row):
        say(f"\n{payload.title}")
        say(_indented(excerpt(safe_json_text(payload.value, indent=2), PAYLOAD_CHARS)))
    if traceback(row):
        say(f"\nTraceback\n{_indented(excerpt(traceback(row)))}")
    tellings, more = describe_attempts(row.pk)
    if tellings:
        say("\nCancellation")
        for telling in tellings:
            say(textwrap.indent(telling.words, "  "))
    if more:
        say("  There were more attempts; the admin lists them.")
    _show_events(row.pk, say)


def write_one(text: str, say: Say) -> None:
    """Print a request as a JSON object. Raises `UnknownRequestError`."""
    row = _find(text)
    newest = list(RequestEvent.objects.filter(request_id=row.pk).order_by("-seq")[:LINES])
    attempts = Cancellation.objects.filter(request_id=row.pk).order_by("pk")[:ATTEMPTS]
    fields: dict[str, Any] = {
        **request_rows.as_json(row),
        "time_limit": row.time_limit,
        "caller_limit": row.caller_limit,
        "arguments": row.arguments,
        "result": row.result,
        "partial_result": row.partial_result,
        "error": row.error,
        "redacted": row.redacted,
        "cancellations": [_cancellation(each) for each in attempts],
        "events": [
            {"seq": event.seq, "at": event.recorded_at.isoformat(), "kind": event.kind, "data": event.data}
            for event in reversed(newest)
        ],
    }
    say(safe_json_text(fields, indent=2))


def _show_events(request_id: UUID, say: Say) -> None:
    """Print the events, oldest first, because a terminal shows the last lines."""
    shown = timeline(request_id, before=None, payload=True)
    say("\nTimeline")
    if shown.remaining:
        say(f"  {shown.remaining} older are not shown")
    for line in reversed(shown.lines):
        say(f"  {line.at}  {line.label}: {textwrap.indent(_whole(line.text), '    ').strip()}")


def _indented(text: Excerpt) -> str:
    return textwrap.indent(_whole(text), "  ")


def _whole(text: Excerpt) -> str:
    return f"{text.text} … and {text.hidden} characters more" if text.hidden else text.text


def _find(text: str) -> Request:
    try:
        request_id = request_ids.find(text)
    except request_ids.UnclearIdError as error:
        raise UnknownRequestError(str(error)) from error
    row = Request.objects.filter(pk=request_id).defer("unredacted").first() if request_id else None
    if row is None:
        raise UnknownRequestError(f"There is no request {safe_text(text, 80)!r}; `mcp requests --all` lists them.")
    return row


def _selected(selection: Selection) -> QuerySet[Request]:
    rows = Request.objects.only(*request_rows.LISTED).order_by("-submitted_at")
    if selection.statuses:
        rows = rows.filter(status__in=selection.statuses)
    elif not selection.everything:
        rows = rows.filter(status__in=OPEN)
    if selection.tool is not None:
        rows = rows.filter(tool=selection.tool)
    if selection.principal is not None:
        rows = rows.filter(_called(selection.principal))
    if selection.since is not None:
        rows = rows.filter(submitted_at__gte=from_now(-selection.since))
    return rows


def _called(name: str) -> Q:
    """Return the condition for a principal: by label, by subject, or by `ISSUER,SUBJECT,CLIENT`."""
    called = Q(principal_label=name) | Q(subject=name)
    parts = name.split(",")
    return called | Q(issuer=parts[0], subject=parts[1], client_id=parts[2]) if len(parts) == 3 else called


def _is_narrowed(selection: Selection) -> bool:
    narrowing = (selection.statuses, selection.tool, selection.principal, selection.since)
    return selection.everything or any(narrowing)


def _cancellation(attempt: Cancellation) -> dict[str, Any]:
    return {
        "requested_at": attempt.requested_at.isoformat(),
        "cause": attempt.cause,
        "actor": attempt.actor,
        "reason": attempt.reason,
        "outcome": attempt.outcome,
        "latency_ms": attempt.latency_ms,
    }
