"""The one door through which every cancellation goes, whoever asks.

The row and its audit are written in one transaction; only then are workers told. Refuses to stop anything itself: the
ladder in the worker does, and the row says CANCELLED only when the work is proved stopped. A QUEUED row is closed here,
because the compare-and-set proves that it never ran.

With a request goes what its tool started, through the same door: right after it, in transactions of its own. Should
this process die in between, supervision finds what is left.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias
from uuid import UUID

from django.db import DatabaseError, Error, OperationalError
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import audit, publishing, transitions, wakeups
from mcp_app.lifecycle.audit import Actor, Attempt
from mcp_app.lifecycle.bursts import Bursts, Kind
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import Cancellation, Request
from mcp_app.states import OPEN, Cause, EventKind, Outcome, Status

logger = logging.getLogger(__name__)

TOGETHER: Final = 50
"""Cancellations in one transaction of many: other writers wait for the whole of it."""


Decided: TypeAlias = tuple[Outcome, Request | None]


@dataclass(frozen=True, slots=True)
class Ask:
    """One wish for one request's work to stop. `principal` limits the asker to requests of its own."""

    request_id: UUID | str
    cause: Cause
    actor: Actor
    reason: str = ""
    principal: Principal | None = None
    part_of: str = ""
    """What is cancelled in the same act, for the audit; empty for one request by itself."""


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


def cancel_all(asks: Sequence[Ask], *, bursts: Bursts | None = None, sweeping: bool = False) -> list[Outcome]:
    """As `cancel` for each, in order and in one transaction: all are stored, or none is.

    `bursts` bounds the rows of what clients ask in vain. `sweeping` passes over what has ended or is to stop already:
    nobody asked for that one by itself, so it leaves no audit row.
    """
    attempts = [audit.attempt(ask.cause, ask.actor, ask.reason, ask.part_of) for ask in asks]
    decided = _record_all(asks, attempts, bursts, sweeping, _Try())
    outcomes = [outcome for outcome, _ in decided]
    for ask, attempt, outcome in zip(asks, attempts, outcomes, strict=True):
        shown = _as_uuid(ask.request_id) or audit.clean(str(ask.request_id), audit.NAME_CHARS)
        logger.info("cancel %s: %s, asked by %s (%s)", shown, outcome, attempt.actor.name, attempt.cause)
    parents = [row.pk for outcome, row in decided if outcome == Outcome.ACCEPTED and row is not None and row.children]
    try:
        cancel_children(parents)
    except Error:
        if databases.connection().in_atomic_block:
            raise
        logger.exception("what %d cancelled requests started is left to supervision", len(parents))
    return outcomes


def sweep(asks: Iterable[Ask]) -> Counter[Outcome]:
    """Cancel many, `TOGETHER` in one transaction, passing over what has ended or is to stop already; what came of it.

    One that cannot be stored is logged and counted nowhere, and keeps none from it. Raises
    django.db.OperationalError at once: from a database that is away all would wait in turn.
    """
    outcomes: Counter[Outcome] = Counter()
    waiting = iter(asks)
    while some := list(islice(waiting, TOGETHER)):
        outcomes.update(_swept(some))
    return outcomes


def cancel_children(parents: Sequence[UUID | str]) -> None:
    """Cancel what the tools of these requests started and has not ended, and what that started; cause parent.

    For requests that are to stop, or whose run is over. Twice is once.
    """
    if not parents:
        return
    going_on = Request.objects.filter(parent__in=parents, status__in=OPEN, cancel_requested_at__isnull=True)
    # What is queued first, so that no slot that gets free is given to it.
    found = list(going_on.order_by("status", "submitted_at").values_list("pk", "parent"))
    if found:
        known = Request.objects.only("tool", "status", "cancel_requested_at", "cancel_cause", "cancel_actor")
        rows = known.in_bulk({parent for _, parent in found if parent})
        sweep(_with_parent(pk, parent, rows.get(parent)) for pk, parent in found if parent)


def _swept(asks: Sequence[Ask]) -> list[Outcome]:
    """All in one transaction; each alone where one keeps the others from being stored."""
    try:
        return cancel_all(asks, sweeping=True)
    except OperationalError:
        raise
    except DatabaseError:
        if len(asks) > 1:
            return [outcome for ask in asks for outcome in _swept([ask])]
        logger.exception("the cancellation of request %s (%s) could not be stored", asks[0].request_id, asks[0].cause)
        return []


def _with_parent(request_id: UUID, parent: UUID, row: Request | None) -> Ask:
    """In the name of who cancelled the parent."""
    actor = Actor(row.cancel_actor) if row is not None and row.cancel_actor else audit.SYSTEM
    if row is None:
        why = f"the call that started it, {parent}, is gone"
    elif row.cancel_requested_at is not None:
        why = f"{row.tool}, which started it, was cancelled ({Cause(row.cancel_cause).label})"
    elif row.status == Status.COMPLETED:
        why = f"{row.tool}, which started it, has completed without waiting for it"
    else:
        why = f"the run of {row.tool} that started it is over"
    return Ask(request_id, Cause.PARENT, actor, why, part_of=f"started by {parent}")


def deny(asks: Sequence[Ask]) -> None:
    """Audit the asking of somebody who may cancel nobody's requests: a DENIED row for each, nothing else touched."""
    attempts = [audit.attempt(ask.cause, ask.actor, ask.reason, ask.part_of) for ask in asks]
    _record_denials(asks, attempts)
    for attempt in attempts[:1]:
        logger.warning("cancel of %d requests denied, asked by %s (%s)", len(asks), attempt.actor.name, attempt.cause)


@transactional
def _record_denials(asks: Sequence[Ask], attempts: Sequence[Attempt]) -> None:
    ids = [_as_uuid(ask.request_id) for ask in asks]
    rows = Request.objects.defer("arguments", "result", "partial_result", "originals").in_bulk([pk for pk in ids if pk])
    for ask, attempt, pk in zip(asks, attempts, ids, strict=True):
        audit.record(attempt, Outcome.DENIED, row=rows.get(pk) if pk else None, requested_id=ask.request_id)


@dataclass(slots=True)
class _Try:
    """What was decided in a transaction, and one row that it wrote: should the answer to its commit be lost."""

    decided: list[Decided] = field(default_factory=list)
    written: Cancellation | None = None


@transactional
def _record_all(
    asks: Sequence[Ask], attempts: Sequence[Attempt], bursts: Bursts | None, sweeping: bool, last: _Try
) -> list[Decided]:
    """`last`: the try before this one, and then this one."""
    if last.written is None or not audit.is_stored(last.written):
        last.written = None
        last.decided = [_record(*each, bursts, sweeping, last) for each in zip(asks, attempts, strict=True)]
    if accepted := [row for outcome, row in last.decided if outcome == Outcome.ACCEPTED and row is not None]:
        databases.on_commit(partial(_pass_on, accepted))
    return last.decided


def _record(ask: Ask, attempt: Attempt, bursts: Bursts | None, sweeping: bool, now: _Try) -> Decided:
    request_id = _as_uuid(ask.request_id)
    row = Request.objects.select_for_update().filter(pk=request_id).first() if request_id else None
    outcome = _decide(row, ask.principal)
    if outcome != Outcome.ACCEPTED or row is None:
        if not sweeping:
            _record_in_vain(ask, attempt, outcome, row, bursts)
    elif row.status == Status.RUNNING:
        now.written = audit.record_accepted(attempt, row)
        transitions.request_stop(row, _story(attempt), **_columns(attempt))
    else:
        now.written = audit.record_stopped(attempt, row)
        transitions.close(row, Status.CANCELLED, after=[_story(attempt)], **_columns(attempt))
    return outcome, row


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


def _pass_on(accepted: Sequence[Request]) -> None:
    """After the commit, so that whoever looks finds it; in one word for all."""
    wakeups.wake_those((row.server, row.pk) for row in accepted)
    if running := [row.pk for row in accepted if row.status == Status.RUNNING]:
        publishing.tell_workers_to_stop(*running)
    if closed := [row.pk for row in accepted if row.status != Status.RUNNING]:
        publishing.revoke(*closed)


def _as_uuid(request_id: UUID | str) -> UUID | None:
    if isinstance(request_id, UUID):
        return request_id
    try:
        return UUID(request_id)
    except ValueError:
        return None
