"""`mcp cancel`: an administrator's cancellation from a terminal, of one request or a group, and what came of it."""

import getpass
import os
import time
from collections import Counter
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import audit, cancellation, groups
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.groups import Group
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
"""The outcomes after which the request is cancelled or about to be."""


def cancel(request_id: str, reason: str) -> Outcome:
    """Ask for the request to be cancelled, in the name of the operating system's user."""
    return cancellation.cancel(request_id, cause=Cause.ADMIN, actor=_actor(), reason=reason)


def cancel_group(group: Group, reason: str) -> Counter[Outcome]:
    """The same for all that are open in the group."""
    return groups.cancel(group, cause=Cause.ADMIN, actor=_actor(), reason=reason)


def callers(named: str) -> list[Principal]:
    """The principals with requests in flight that are called so: by label, by subject, or by all three of their parts.

    `ISSUER,SUBJECT,CLIENT` is the last; parts may be empty.
    """
    columns = ("issuer", "subject", "client_id", "principal_label")
    found = {Principal(*values) for values in Request.objects.filter(status__in=OPEN).values_list(*columns).distinct()}
    by_parts = [each for each in found if describe_caller(each) == named]
    by_name = [each for each in found if named in (each.label, each.subject or each.label)]
    # One principal may have gone by several labels.
    return list({describe_caller(each): each for each in by_parts or by_name}.values())


def describe_caller(caller: Principal) -> str:
    """`ISSUER,SUBJECT,CLIENT`."""
    return ",".join(caller.identity.values())


def describe_group(group: Group, outcomes: Counter[Outcome]) -> str:
    """What became of the asking for all of a group."""
    told = [f"{count} {_WORDS[outcome]}" for outcome in _WORDS if (count := outcomes[outcome])]
    return f"{group.name}: {', '.join(told) or 'nothing is open that is not to stop already'}"


def await_stops(group: Group, seconds: float) -> int:
    """Wait until those of the group that are to stop now have; how many have not after `seconds`."""
    stopping = Request.objects.filter(status__in=OPEN, cancel_requested_at__isnull=False, **group.common)
    waited_for = set(stopping.values_list("pk", flat=True))
    deadline = time.monotonic() + seconds
    while left := len(waited_for & set(stopping.values_list("pk", flat=True))):
        if time.monotonic() > deadline:
            return left
        time.sleep(POLL_SECONDS)
    return 0


def describe(outcome: Outcome) -> str:
    """What became of the asking. DENIED cannot be: the command line asks for everybody's requests."""
    return _WORDS[outcome]


def await_end(request_id: UUID, seconds: float) -> Request | None:
    """The request once it has ended; None if it is still open after `seconds`."""
    deadline = time.monotonic() + seconds
    while (row := Request.objects.get(pk=request_id)).status in OPEN:
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return row


def describe_end(row: Request) -> str:
    """Status, stage and latency of a request that has ended."""
    words = f"{Status(row.status).label}, stage {Stage(row.stage).label}"
    if (latency := _latency_ms(row)) is not None:
        words += f", {latency:.0f} ms after the cancel"
    return words


def as_json(request_id: str, outcome: Outcome, row: Request | None) -> dict[str, Any]:
    """What became of the asking, for programs; `row`: the request, if it was waited for until it had ended."""
    told: dict[str, Any] = {"id": request_id, "outcome": outcome.value}
    if row is not None:
        told |= {"status": row.status, "stage": Stage(row.stage).name.lower(), "latency_ms": _latency_ms(row)}
    return told


def group_as_json(group: Group, outcomes: Counter[Outcome], left: int) -> dict[str, Any]:
    """The same of a group; `left`: how many of it have not stopped, of those that were waited for."""
    counted = {outcome.value: count for outcome, count in outcomes.items()}
    return {"group": group.name, "outcomes": counted, "not_stopped": left}


def _latency_ms(row: Request) -> float | None:
    if row.cancel_requested_at is None or row.finished_at is None:
        return None
    return round(audit.milliseconds(row.cancel_requested_at, row.finished_at), 3)


def _actor() -> Actor:
    return Actor(f"command line: {_user()}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"uid {os.getuid()}"
