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
from mcp_app.models import Cancellation, Request
from mcp_app.states import Cause, Outcome, Status

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asked for a cancellation: `name` for people (a user, a principal's label, "system"), and from where."""

    name: str
    address: str = ""


SYSTEM = Actor("system")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to cancel, as it was asked for."""

    cause: Cause
    actor: Actor
    reason: str = ""


def clean(text: str) -> str:
    """`text` on one line without control sequences, as long as a reason may be."""
    return _CONTROL.sub(" ", _ANSI.sub("", text)).strip()[: settings.MAX_REASON_CHARS]


def record(attempt: Attempt, outcome: Outcome, *, row: Request | None, requested_id: object) -> None:
    """Add the row of one attempt; every outcome but ACCEPTED is settled as it is written."""
    settled = outcome != Outcome.ACCEPTED
    Cancellation.objects.create(
        cause=attempt.cause,
        actor=clean(attempt.actor.name)[:255],
        actor_address=attempt.actor.address,
        reason=attempt.reason,
        outcome=outcome,
        settled_at=Now() if settled else None,
        **(_about(row, settled=settled) if row else {"requested_id": clean(str(requested_id))[:255]}),
    )


def settle(row: Request) -> None:
    """Complete the accepted attempt, if any, on a request that has just been closed."""
    if row.cancel_requested_at is None:
        return
    Cancellation.objects.filter(request_id=row.pk, outcome=Outcome.ACCEPTED).settle(
        outcome=Outcome.TOO_LATE if row.status == Status.COMPLETED else Outcome.ACCEPTED,
        status_after=row.status,
        stage=row.stage,
        stopped_at=row.finished_at,
        latency_ms=_milliseconds(row.cancel_requested_at, row.finished_at),
        settled_at=Now(),
    )


def attempts(request_id: UUID) -> list[Cancellation]:
    return list(Cancellation.objects.filter(request_id=request_id).order_by("pk"))


def _about(row: Request, *, settled: bool) -> dict[str, Any]:
    name = row.client_info.get("name", "") if isinstance(row.client_info, dict) else ""
    return {
        "request_id": row.pk,
        "tool": row.tool,
        "issuer": row.issuer,
        "subject": row.subject,
        "client_id": row.client_id,
        "principal_label": row.principal_label,
        "client_name": clean(str(name))[:255],
        "status_before": row.status,
        "status_after": row.status if settled else "",
        "stage": row.stage,
    }


def _milliseconds(start: datetime, end: datetime | None) -> float | None:
    return None if end is None else (end - start).total_seconds() * 1000
