"""The audit of cancellations: a row for every attempt, completed once when the work is proved stopped.

Owns what an audit row says. Refuses to be written outside the transaction of the step it records.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle import seals
from mcp_app.models import Cancellation, Request
from mcp_app.states import Cause, Outcome, Status

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?")
NAME_CHARS = 255
ADDRESS_CHARS = 64
REASON_CHARS = 1024
"""What the columns hold. SQLite does not mind more; PostgreSQL would refuse the row, and the cancellation with it."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asked for a cancellation: `name` for people (a user, a principal's label, "system"), and from where."""

    name: str
    address: str = ""


SYSTEM = Actor("system")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to cancel, its texts clean."""

    cause: Cause
    actor: Actor
    reason: str = ""
    part_of: str = ""
    """What is cancelled in the same act; empty for one request by itself."""


def attempt(cause: Cause, actor: Actor, reason: str, part_of: str = "") -> Attempt:
    """What was asked, fit for logs, terminals and columns: the texts may be a client's."""
    return Attempt(
        cause=cause,
        actor=Actor(clean(actor.name, NAME_CHARS), clean(actor.address, ADDRESS_CHARS)),
        reason=clean(reason, min(settings.MAX_REASON_CHARS, REASON_CHARS)),
        part_of=clean(part_of, NAME_CHARS),
    )


def clean(text: str, length: int) -> str:
    """At most `length` characters of `text`, on one line, without control sequences or changes of direction."""
    return _CONTROL.sub(" ", _ANSI.sub("", text[: 4 * length])).strip()[:length]


def record(attempt: Attempt, outcome: Outcome, *, row: Request | None, requested_id: object) -> Cancellation:
    """Add the row of an attempt that changed nothing."""
    about = _about(row) if row else {"requested_id": clean(str(requested_id), NAME_CHARS)}
    return _add(attempt, outcome, settled_at=Now(), status_after=row.status if row else "", **about)


def record_accepted(attempt: Attempt, row: Request) -> Cancellation:
    """Add the row of an attempt to stop a running request; `settle` completes it."""
    return _add(attempt, Outcome.ACCEPTED, **_about(row))


def record_stopped(attempt: Attempt, row: Request) -> Cancellation:
    """Add the row of an attempt that closes a request which never ran: nothing is left to be stopped."""
    stopped = {"status_after": Status.CANCELLED, "stopped_at": Now(), "latency_ms": 0.0, "settled_at": Now()}
    return _add(attempt, Outcome.ACCEPTED, **_about(row), **stopped)


def is_stored(written: Cancellation) -> bool:
    """Whether the row of an attempt is there, that a transaction has added whose end is not known."""
    same = {name: getattr(written, name) for name in ("pk", "request_id", "requested_id", "cause", "actor", "reason")}
    return Cancellation.objects.filter(**same).exists()


def settle(row: Request) -> None:
    """Complete the accepted attempt, where there is one left to be, on a request that has just been closed."""
    assert row.cancel_requested_at is not None, "only a requested cancellation can be settled"
    accepted = Cancellation.objects.filter(request_id=row.pk, outcome=Outcome.ACCEPTED, settled_at__isnull=True)
    for attempt in accepted:
        attempt.outcome = Outcome.TOO_LATE if row.status == Status.COMPLETED else Outcome.ACCEPTED
        attempt.status_after, attempt.stage = row.status, row.stage
        attempt.latency_ms = milliseconds(row.cancel_requested_at, row.finished_at) if row.finished_at else None
        Cancellation.objects.filter(pk=attempt.pk, settled_at__isnull=True).settle(
            outcome=attempt.outcome,
            status_after=attempt.status_after,
            stage=attempt.stage,
            stopped_at=row.finished_at,
            latency_ms=attempt.latency_ms,
            settled_at=Now(),
            signature=seals.sign(attempt),
        )


def attempts(request_id: UUID) -> list[Cancellation]:
    return list(Cancellation.objects.filter(request_id=request_id).order_by("pk"))


def _add(attempt: Attempt, outcome: Outcome, **columns: Any) -> Cancellation:
    row = Cancellation(
        cause=attempt.cause,
        actor=attempt.actor.name,
        actor_address=attempt.actor.address,
        reason=attempt.reason,
        part_of=attempt.part_of,
        outcome=outcome,
        **columns,
    )
    row.signature = seals.sign(row)
    row.save(force_insert=True)
    return row


def _about(row: Request) -> dict[str, Any]:
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
    """From one to the other, at least 0: the database's clock may have been set back between."""
    return max(0.0, (end - start).total_seconds() * 1000)
