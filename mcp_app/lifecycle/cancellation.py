"""The one door through which every cancellation goes, whoever asks.

The row and its audit are written in one transaction; only then are workers told. Refuses to stop anything itself: the
ladder in the worker does, and the row says CANCELLED only when the work is proved stopped. A QUEUED row is closed here,
because the compare-and-set proves that it never ran.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import audit, publishing, transitions, wakeups
from mcp_app.lifecycle.audit import Actor, Attempt
from mcp_app.lifecycle.bursts import Bursts, Kind
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, EventKind, Outcome, Status

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """One wish for one request's work to stop. `principal` limits the asker to requests of its own."""

    request_id: UUID | str
    cause: Cause
    actor: Actor
    reason: str = ""
    principal: Principal | None = None


def cancel(
    request_id: UUID | str,
    *,
    cause: Cause,
    actor: Actor,
    reason: str = "",
    principal: Principal | None = None,
) -> Outcome:
    """Ask for a request's work to stop; what became of the asking. Every attempt is audited.

    To a `principal` that asks for another's request DENIED must be told in the words of UNKNOWN. ACCEPTED means that
    the intent is stored, not that the work has stopped.
    """
    return cancel_all([Ask(request_id, cause, actor, reason, principal)])[0]


def cancel_all(asks: Sequence[Ask], *, bursts: Bursts | None = None) -> list[Outcome]:
    """As `cancel` for each, in order and in one transaction: all are stored, or none is.

    `bursts` bounds the rows of what clients ask in vain.
    """
    attempts = [audit.attempt(ask.cause, ask.actor, ask.reason) for ask in asks]
    outcomes = _record_all(asks, attempts, bursts)
    for ask, attempt, outcome in zip(asks, attempts, outcomes, strict=True):
        shown = _as_uuid(ask.request_id) or audit.clean(str(ask.request_id), audit.NAME_CHARS)
        logger.info("cancel %s: %s, asked by %s (%s)", shown, outcome, attempt.actor.name, attempt.cause)
    return outcomes


def deny(asks: Sequence[Ask]) -> None:
    """Audit the asking of somebody who may cancel nobody's requests: a DENIED row for each, nothing else touched."""
    attempts = [audit.attempt(ask.cause, ask.actor, ask.reason) for ask in asks]
    _record_denials(asks, attempts)
    for attempt in attempts[:1]:
        logger.warning("cancel of %d requests denied, asked by %s (%s)", len(asks), attempt.actor.name, attempt.cause)


@transactional
def _record_denials(asks: Sequence[Ask], attempts: Sequence[Attempt]) -> None:
    ids = [_as_uuid(ask.request_id) for ask in asks]
    rows = Request.objects.defer("arguments", "result", "partial_result").in_bulk([pk for pk in ids if pk])
    for ask, attempt, pk in zip(asks, attempts, ids, strict=True):
        audit.record(attempt, Outcome.DENIED, row=rows.get(pk) if pk else None, requested_id=ask.request_id)


@transactional
def _record_all(asks: Sequence[Ask], attempts: Sequence[Attempt], bursts: Bursts | None) -> list[Outcome]:
    return [_record(ask, attempt, bursts) for ask, attempt in zip(asks, attempts, strict=True)]


def _record(ask: Ask, attempt: Attempt, bursts: Bursts | None) -> Outcome:
    request_id = _as_uuid(ask.request_id)
    row = Request.objects.select_for_update().filter(pk=request_id).first() if request_id else None
    outcome = _decide(row, ask.principal)
    if outcome != Outcome.ACCEPTED or row is None:
        _record_in_vain(ask, attempt, outcome, row, bursts)
    elif row.status == Status.RUNNING:
        audit.record_accepted(attempt, row)
        transitions.request_stop(row, _story(attempt), **_columns(attempt))
        databases.on_commit(partial(_pass_on, row, publishing.tell_workers_to_stop))
    else:
        audit.record_stopped(attempt, row)
        transitions.close(row, Status.CANCELLED, after=[_story(attempt)], **_columns(attempt))
        databases.on_commit(partial(_pass_on, row, publishing.revoke))
    return outcome


def _record_in_vain(ask: Ask, attempt: Attempt, outcome: Outcome, row: Request | None, bursts: Bursts | None) -> None:
    if bursts is None or ask.principal is None:
        audit.record(attempt, outcome, row=row, requested_id=ask.request_id)
        return
    kind = Kind(attempt.cause, attempt.actor, outcome)
    if admitted := bursts.admits(kind):
        audit.record(attempt, outcome, row=row, requested_id=ask.request_id)
    databases.on_commit(partial(bursts.add, kind, recorded=admitted))


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


def _columns(attempt: Attempt) -> dict[str, Any]:
    return {
        "cancel_requested_at": Now(),
        "cancel_cause": attempt.cause,
        "cancel_actor": attempt.actor.name,
        "cancel_reason": attempt.reason,
    }


def _story(attempt: Attempt) -> Event:
    told = {"cause": attempt.cause.value, "actor": attempt.actor.name, "reason": attempt.reason}
    return Event(EventKind.CANCEL, told)


def _pass_on(row: Request, tell_workers: Callable[[UUID], None]) -> None:
    """After the commit, so that whoever looks finds it."""
    wakeups.wake_server(row.server)
    tell_workers(row.pk)


def _as_uuid(request_id: UUID | str) -> UUID | None:
    if isinstance(request_id, UUID):
        return request_id
    try:
        return UUID(request_id)
    except ValueError:
        return None
