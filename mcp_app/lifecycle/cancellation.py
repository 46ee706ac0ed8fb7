"""The one door through which every cancellation goes, whoever asks.

The row and its audit are written in one transaction; only then are workers told. Refuses to stop anything itself: the
ladder in the worker does, and the row says CANCELLED only when the work is proved stopped. A QUEUED row is closed here,
because the compare-and-set proves that it never ran.
"""

import logging
from dataclasses import dataclass
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Now

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import audit, events, publishing, transitions, wakeups
from mcp_app.lifecycle.audit import Actor, Attempt
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, EventKind, Outcome, Status

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Recorded:
    outcome: Outcome
    row: Request | None


def cancel(
    request_id: UUID | str,
    *,
    cause: Cause,
    actor: Actor,
    reason: str = "",
    principal: Principal | None = None,
) -> Outcome:
    """Ask for a request's work to stop; what became of the asking. Every attempt is audited.

    `principal` limits the asker to requests of its own: for another's the outcome is DENIED, which a client must be
    told in the words of UNKNOWN. ACCEPTED means that the intent is stored, not that the work has stopped.
    """
    attempt = Attempt(cause=cause, actor=actor, reason=audit.clean(reason))
    recorded = _record(_as_uuid(request_id), request_id, attempt, principal)
    logger.info("cancel %s: %s, asked by %s (%s)", request_id, recorded.outcome, actor.name, cause)
    if recorded.outcome == Outcome.ACCEPTED and recorded.row is not None:
        _pass_on(recorded.row)
    return recorded.outcome


@transactional
def _record(request_id: UUID | None, requested_id: object, attempt: Attempt, principal: Principal | None) -> _Recorded:
    row = Request.objects.select_for_update().filter(pk=request_id).first() if request_id else None
    outcome = _decide(row, principal)
    audit.record(attempt, outcome, row=row, requested_id=requested_id)
    if outcome == Outcome.ACCEPTED and row is not None:
        _accept(row, attempt)
    return _Recorded(outcome, row)


def _decide(row: Request | None, principal: Principal | None) -> Outcome:
    if row is None:
        return Outcome.UNKNOWN
    if principal is not None and not principal.owns(row):
        return Outcome.DENIED
    if row.status not in OPEN:
        return Outcome.TOO_LATE
    if row.cancel_requested_at is not None:
        return Outcome.DUPLICATE
    return Outcome.ACCEPTED


def _accept(row: Request, attempt: Attempt) -> None:
    Request.objects.filter(pk=row.pk, status__in=OPEN, cancel_requested_at__isnull=True).update(
        cancel_requested_at=Now(),
        cancel_cause=attempt.cause,
        cancel_actor=attempt.actor.name[:255],
        cancel_reason=attempt.reason,
        event_seq=F("event_seq") + 1,
    )
    newest = Request.objects.values_list("event_seq", flat=True).get(pk=row.pk)
    story = {"cause": attempt.cause.value, "actor": attempt.actor.name, "reason": attempt.reason}
    events.insert(row.pk, [Event(EventKind.CANCEL, story)], newest)
    if row.status != Status.RUNNING:
        transitions.finish(row.pk, Status.CANCELLED)


def _pass_on(row: Request) -> None:
    """After the commit. `row.status` is what it was when the cancellation was accepted."""
    if row.status == Status.RUNNING:
        publishing.tell_workers_to_stop(row.pk)
    else:
        publishing.revoke(row.pk)
    wakeups.wake_server(row.server)


def _as_uuid(request_id: UUID | str) -> UUID | None:
    if isinstance(request_id, UUID):
        return request_id
    try:
        return UUID(request_id)
    except ValueError:
        return None
