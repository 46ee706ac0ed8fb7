"""The rows of the audit: one for each attempt to cancel a request.

If a client makes a burst of attempts that change nothing, only the first ones have rows of their
own, and one row has the number of the others (`lifecycle.cancellation.throttling`).

An attempt that changed nothing, or that closed a request which no worker ran, is settled when it is
stored. An attempt to stop a running tool is settled by `settle`, when the request has ended. After
that only the seal is added to a row.

Callers store a row in the transaction of the step that it records. So there is no accepted
cancellation without its row, and no row for a cancellation that was rolled back.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle.audit import signatures
from mcp_app.lifecycle.database import clock
from mcp_app.models import Cancellation, Request
from mcp_app.states import Cause, Outcome, Status

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?")
NAME_CHARS = 255
ADDRESS_CHARS = 64
REASON_CHARS = 1024
# The sizes of the columns. A longer text would make a cancellation fail on PostgreSQL.


@dataclass(frozen=True, slots=True)
class Actor:
    """The user, client or part of this system that asked for a cancellation, and its network address.

    `name` is for display: a user's name, a principal's label, or "system".
    """

    name: str
    address: str = ""


SYSTEM = Actor("system")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to cancel. `make_attempt` makes it, with clean texts."""

    cause: Cause
    actor: Actor
    reason: str = ""
    part_of: str = ""
    """The group that is cancelled together, such as a session. Empty for a single request."""


def make_attempt(cause: Cause, actor: Actor, reason: str, part_of: str = "") -> Attempt:
    """Return an attempt whose texts, which may be a client's, are fit for logs and columns."""
    return Attempt(
        cause=cause,
        actor=Actor(clean(actor.name, NAME_CHARS), clean(actor.address, ADDRESS_CHARS)),
        reason=clean(reason, min(settings.MAX_REASON_CHARS, REASON_CHARS)),
        part_of=clean(part_of, NAME_CHARS),
    )


def clean(text: str, length: int) -> str:
    """Return `text` on one line of at most `length` characters.

    Removes terminal escape sequences, and replaces each run of control characters, line separators,
    lone surrogates and bidirectional controls by one space.
    """
    # The first slice bounds the work for a client's text.
    return _CONTROL.sub(" ", _ANSI.sub("", text[: 4 * length])).strip()[:length]


def record(attempt: Attempt, outcome: Outcome, *, row: Request | None, requested_id: object) -> None:
    """Store the row of an attempt that changed nothing."""
    add([unaccepted(attempt, outcome, row=row, requested_id=requested_id, at=clock.read())])


def unaccepted(
    attempt: Attempt, outcome: Outcome, *, row: Request | None, requested_id: object, at: datetime
) -> Cancellation:
    """Return an unstored row for an attempt that changed nothing.

    `requested_id` is what the client sent, for a request that was not found. `at` is the database's time.
    """
    about = _request_columns(row) if row else {"requested_id": clean(str(requested_id), NAME_CHARS)}
    return _make(attempt, outcome, at, settled_at=at, status_after=row.status if row else "", **about)


def accepted_running(attempt: Attempt, row: Request, *, at: datetime) -> Cancellation:
    """Return an unstored row for an attempt to stop a running request. `settle` completes it."""
    return _make(attempt, Outcome.ACCEPTED, at, **_request_columns(row))


def accepted_waiting(attempt: Attempt, row: Request, *, at: datetime) -> Cancellation:
    """Return an unstored row for an attempt that closes a request which no worker runs."""
    stopped = {"status_after": Status.CANCELLED, "stopped_at": at, "latency_ms": 0.0, "settled_at": at}
    return _make(attempt, Outcome.ACCEPTED, at, **_request_columns(row), **stopped)


def add(rows: Sequence[Cancellation]) -> None:
    """Store these rows, in one statement if the database allows so many."""
    Cancellation.objects.bulk_create(rows)


def is_stored(written: Cancellation) -> bool:
    """Return whether this row is stored, for a caller that got no confirmation of its commit."""
    return Cancellation.objects.filter(attempt_id=written.attempt_id).exists()


def settle(row: Request) -> None:
    """Settle the accepted attempt to cancel a request that has just ended.

    Its outcome becomes `TOO_LATE` if the tool completed. Its `stopped_at` is when the request ended, in any case.
    """
    assert row.cancel_requested_at is not None, "only a requested cancellation can be settled"
    assert row.finished_at is not None, "only the end of a request settles a cancellation"
    accepted = Cancellation.objects.filter(request_id=row.pk, outcome=Outcome.ACCEPTED, settled_at__isnull=True)
    for attempt in accepted:
        attempt.outcome = Outcome.TOO_LATE if row.status == Status.COMPLETED else Outcome.ACCEPTED
        attempt.status_after, attempt.stage = row.status, row.stage
        attempt.latency_ms = milliseconds(row.cancel_requested_at, row.finished_at)
        attempt.stopped_at = attempt.settled_at = row.finished_at
        Cancellation.objects.filter(pk=attempt.pk, settled_at__isnull=True).settle(
            outcome=attempt.outcome,
            status_after=attempt.status_after,
            stage=attempt.stage,
            stopped_at=attempt.stopped_at,
            latency_ms=attempt.latency_ms,
            settled_at=attempt.settled_at,
            signature=signatures.sign(attempt),
        )


def list_attempts(request_id: UUID) -> list[Cancellation]:
    return list(Cancellation.objects.filter(request_id=request_id).order_by("pk"))


def _make(attempt: Attempt, outcome: Outcome, requested_at: datetime, **columns: Any) -> Cancellation:
    row = Cancellation(
        requested_at=requested_at,
        cause=attempt.cause,
        actor=attempt.actor.name,
        actor_address=attempt.actor.address,
        reason=attempt.reason,
        part_of=attempt.part_of,
        outcome=outcome,
        **columns,
    )
    row.signature = signatures.sign(row)
    return row


def _request_columns(row: Request) -> dict[str, Any]:
    """Return the columns about the request. Call it before the request's status changes."""
    name = row.client_info.get("name", "") if isinstance(row.client_info, dict) else ""
    return {
        "request_id": row.pk,
        "tool": row.tool,
        "issuer": row.issuer,
        "subject": row.subject,
        "client_id": row.client_id,
        "endpoint": row.endpoint,
        "principal_label": row.principal_label,
        "client_name": clean(str(name), NAME_CHARS),
        "status_before": row.status,
        "stage": row.stage,
    }


def milliseconds(start: datetime, end: datetime) -> float:
    """Return the milliseconds from `start` to `end`, or 0 if the clock was set back in between."""
    return max(0.0, (end - start).total_seconds() * 1000)
