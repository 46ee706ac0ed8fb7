"""`mcp cancel`: cancels a request or a group of requests as an administrator."""

import getpass
import os
import time
from collections import Counter
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.audit import attempts
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation, groups
from mcp_app.lifecycle.cancellation.groups import RequestGroup
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, Outcome, Stage, Status

POLL_SECONDS = 0.05

_WORDS = {
    Outcome.ACCEPTED: "cancel requested",
    Outcome.DUPLICATE: "cancel had already been requested",
    Outcome.TOO_LATE: "had already finished",
    Outcome.UNKNOWN: "unknown request",
}
IN_FORCE = frozenset({Outcome.ACCEPTED, Outcome.DUPLICATE})
"""The outcomes after which the request is cancelled, or will be."""


def cancel(request_id: str, reason: str) -> Outcome:
    """Cancel a request in the name of the operating system's user."""
    return cancellation.cancel(request_id, cause=Cause.ADMIN, actor=_actor(), reason=reason)


def cancel_group(group: RequestGroup, reason: str) -> Counter[Outcome]:
    """Cancel all open requests of a group in the name of the operating system's user."""
    return groups.cancel(group, cause=Cause.ADMIN, actor=_actor(), reason=reason)


def callers(named: str) -> list[Principal]:
    """Return the principals with requests in flight that have this label, this subject, or these three parts.

    The three parts are written `ISSUER,SUBJECT,CLIENT`; parts may be empty.
    """
    columns = ("issuer", "subject", "client_id", "principal_label")
    found = {Principal(*values) for values in Request.objects.filter(status__in=OPEN).values_list(*columns).distinct()}
    by_parts = [each for each in found if describe_caller(each) == named]
    by_name = [each for each in found if named in (each.label, each.subject or each.label)]
    # A principal may have had several labels.
    return list({describe_caller(each): each for each in by_parts or by_name}.values())


def describe_caller(caller: Principal) -> str:
    """Return `ISSUER,SUBJECT,CLIENT`."""
    return ",".join(caller.identity.values())


def describe_group(group: RequestGroup, outcomes: Counter[Outcome]) -> str:
    """Return a sentence with the outcomes for a group."""
    parts = [f"{count} {_WORDS[outcome]}" for outcome in _WORDS if (count := outcomes[outcome])]
    return f"{group.name}: {', '.join(parts) or 'nothing to cancel'}"


def await_stops(group: RequestGroup, seconds: float) -> int:
    """Wait until the cancelled requests of a group have stopped. Return how many have not after `seconds`."""
    stopping = Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=False, **group.common)
    waited_for = set(stopping.values_list("pk", flat=True))
    deadline = time.monotonic() + seconds
    while left := len(waited_for & set(stopping.values_list("pk", flat=True))):
        if time.monotonic() > deadline:
            return left
        time.sleep(POLL_SECONDS)
    return 0


def describe(outcome: Outcome) -> str:
    """Return a sentence with the outcome. DENIED is impossible, because the command line may cancel all requests."""
    return _WORDS[outcome]


def await_end(request_id: UUID, seconds: float) -> Request | None:
    """Wait for the end of a request and return it, or `None` if it is still open after `seconds`."""
    deadline = time.monotonic() + seconds
    while (row := Request.objects.get(pk=request_id)).status in OPEN:
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return row


def describe_end(row: Request) -> str:
    """Return the status, stage and latency of an ended request as a sentence."""
    words = f"{Status(row.status).label}, stage {Stage(row.stage).label}"
    if (latency := _latency_ms(row)) is not None:
        words += f", {latency:.0f} ms after the cancel"
    return words


def as_json(request_id: str, outcome: Outcome, row: Request | None) -> dict[str, Any]:
    """Return the outcome as a JSON object. `row` is the ended request, if the command has waited for it."""
    fields: dict[str, Any] = {"id": request_id, "outcome": outcome.value}
    if row is not None:
        fields |= {"status": row.status, "stage": Stage(row.stage).name.lower(), "latency_ms": _latency_ms(row)}
    return fields


def group_as_json(group: RequestGroup, outcomes: Counter[Outcome], left: int) -> dict[str, Any]:
    """Return the outcomes for a group as a JSON object. `left` is the number of requests that have not stopped."""
    counted = {outcome.value: count for outcome, count in outcomes.items()}
    return {"group": group.name, "outcomes": counted, "not_stopped": left}


def _latency_ms(row: Request) -> float | None:
    if row.cancel_requested_at is None or row.finished_at is None:
        return None
    return round(attempts.milliseconds(row.cancel_requested_at, row.finished_at), 3)


def _actor() -> Actor:
    return Actor(f"command line: {_user()}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"uid {os.getuid()}"
