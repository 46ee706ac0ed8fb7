"""Cancels requests. Every cancellation goes through this module, whatever its cause.

Theory of operation
-------------------

1. The request's row is locked, and the attempt is decided: accepted, or too late, a duplicate, denied, unknown. The row
   and a row of the audit are written in one transaction.
2. A request that no worker runs becomes CANCELLED here. The lock keeps workers from claiming it in between.
3. A running request is only marked. After the commit the workers are notified, and the worker that runs it makes it
   stop (`execution.process.ladder`). Its row becomes CANCELLED when the work has provably stopped.
4. If the notification is lost, nothing else is: each worker checks the rows of its calls every second.
5. The calls that a request's tool has started are cancelled right afterwards, in transactions of their own. If this
   process dies in between, supervision cancels them.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias
from uuid import UUID

from django.db import DatabaseError, Error, OperationalError
from django.db.models import QuerySet

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.audit import attempts as audit
from mcp_app.lifecycle.audit.attempts import Actor, Attempt
from mcp_app.lifecycle.cancellation.throttling import AttemptKind, BurstThrottle
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Cancellation, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import OPEN, Cause, EventKind, Outcome, Status

logger = logging.getLogger(__name__)

TOGETHER: Final = 500
"""The most cancellations in one transaction. Other writers wait for the whole transaction."""


Decided: TypeAlias = tuple[Outcome, Request | None]


@dataclass(frozen=True, slots=True)
class CancellationRequest:
    """Asks for one request to be cancelled. If `principal` is given, the request must belong to it."""

    request_id: UUID | str
    cause: Cause
    actor: Actor
    reason: str = ""
    principal: Principal | None = None
    part_of: str = ""
    """The group that is cancelled together, for the audit, or "" for a single request."""


def cancel(
    request_id: UUID | str,
    *,
    cause: Cause,
    actor: Actor,
    reason: str = "",
    principal: Principal | None = None,
) -> Outcome:
    """Cancel one request and return the outcome of the attempt. Every attempt is audited.

    ACCEPTED means that the cancellation is stored, not that the work has stopped. A caller whose attempt is DENIED must
    get the same response as for UNKNOWN, so that it does not learn of other callers' requests.
    """
    return cancel_all([CancellationRequest(request_id, cause, actor, reason, principal)])[0]


def cancel_all(
    asks: Sequence[CancellationRequest], *, throttle: BurstThrottle | None = None, sweeping: bool = False
) -> list[Outcome]:
    """Cancel several requests in one transaction: all attempts are stored, or none is.

    `throttle` limits the audit rows of attempts that change nothing. With `sweeping`, requests that have ended or must
    stop already leave no audit row, because they were selected as part of a group.
    """
    attempts = [audit.make_attempt(ask.cause, ask.actor, ask.reason, ask.part_of) for ask in asks]
    decided = _record_all(asks, attempts, throttle, sweeping, _TransactionAttempt())
    outcomes = [outcome for outcome, _ in decided]
    for ask, attempt, outcome in zip(asks, attempts, outcomes, strict=True):
        shown = _as_uuid(ask.request_id) or audit.clean(str(ask.request_id), audit.NAME_CHARS)
        logger.info(
            "cancellation of request %s: %s; asked for by %s (%s)", shown, outcome, attempt.actor.name, attempt.cause
        )
    parents = [row.pk for outcome, row in decided if outcome == Outcome.ACCEPTED and row is not None and row.children]
    try:
        cancel_children(parents)
    except Error:
        if databases.connection().in_atomic_block:
            raise
        logger.exception(
            "the calls that %d cancelled requests started could not be cancelled; supervision cancels them",
            len(parents),
        )
    return outcomes


def sweep(asks: Iterable[CancellationRequest]) -> Counter[Outcome]:
    """Cancel many requests, `TOGETHER` at a time, and count the outcomes. Ended requests are passed over.

    A cancellation that cannot be stored is logged, and the others are stored. Raises `django.db.OperationalError` at
    once, because every further attempt would wait for a database that is away.
    """
    outcomes: Counter[Outcome] = Counter()
    waiting = iter(asks)
    while some := list(islice(waiting, TOGETHER)):
        outcomes.update(_swept(some))
    return outcomes


def cancel_children(parents: Sequence[UUID | str]) -> None:
    """Cancel the open calls that the tools of these requests have started, and their calls, with the cause *parent*.

    For requests that must stop, or whose run has ended. Idempotent.
    """
    if not parents:
        return
    going_on = Request.objects.filter(parent__in=parents, status__in=OPEN, cancel_requested_at__isnull=True)
    # Queued calls first, so that none of them gets the slot of a running one.
    found = list(going_on.order_by("status", "submitted_at").values_list("pk", "parent"))
    if found:
        known = Request.objects.only("tool", "status", "cancel_requested_at", "cancel_cause", "cancel_actor")
        rows = known.in_bulk({parent for _, parent in found if parent})
        sweep(_with_parent(pk, parent, rows.get(parent)) for pk, parent in found if parent)


def _swept(asks: Sequence[CancellationRequest]) -> list[Outcome]:
    """Store all in one transaction. If one cannot be stored, store each by itself."""
    try:
        return cancel_all(asks, sweeping=True)
    except OperationalError:
        raise
    except DatabaseError:
        if len(asks) > 1:
            return [outcome for ask in asks for outcome in _swept([ask])]
        logger.exception("the cancellation of request %s (%s) could not be stored", asks[0].request_id, asks[0].cause)
        return []


def _with_parent(request_id: UUID, parent: UUID, row: Request | None) -> CancellationRequest:
    """Return the cancellation of a child, in the name of the actor who cancelled its parent."""
    actor = Actor(row.cancel_actor) if row is not None and row.cancel_actor else audit.SYSTEM
    if row is None:
        why = f"the call that started it, {parent}, is gone"
    elif row.cancel_requested_at is not None:
        why = f"{row.tool}, which started it, was cancelled ({Cause(row.cancel_cause).label})"
    elif row.status == Status.COMPLETED:
        why = f"{row.tool}, which started it, has completed without waiting for it"
    else:
        why = f"the run of {row.tool} that started it has ended"
    return CancellationRequest(request_id, Cause.PARENT, actor, why, part_of=f"started by {parent}")


def deny(asks: Sequence[CancellationRequest]) -> None:
    """Record a DENIED attempt for each request, for a user without the permission to cancel."""
    attempts = [audit.make_attempt(ask.cause, ask.actor, ask.reason, ask.part_of) for ask in asks]
    _record_denials(asks, attempts)
    for attempt in attempts[:1]:
        logger.warning(
            "cancellation of %d requests denied; asked for by %s (%s)", len(asks), attempt.actor.name, attempt.cause
        )


@transactional
def _record_denials(asks: Sequence[CancellationRequest], attempts: Sequence[Attempt]) -> None:
    ids = [_as_uuid(ask.request_id) for ask in asks]
    rows = _rows().in_bulk([pk for pk in ids if pk])
    at = clock.read()
    audit.add(
        [
            audit.unaccepted(
                attempt, Outcome.DENIED, row=rows.get(pk) if pk else None, requested_id=ask.request_id, at=at
            )
            for ask, attempt, pk in zip(asks, attempts, ids, strict=True)
        ]
    )


@dataclass(slots=True)
class _TransactionAttempt:
    """The decisions of a transaction, and a row that it wrote, in case the confirmation of its commit is lost."""

    decided: list[Decided] = field(default_factory=list)
    written: Cancellation | None = None


@transactional
def _record_all(
    asks: Sequence[CancellationRequest],
    attempts: Sequence[Attempt],
    throttle: BurstThrottle | None,
    sweeping: bool,
    transaction: _TransactionAttempt,
) -> list[Decided]:
    """Decide and write.

    `transaction` has the decisions of the previous try, which hold if its row was in fact stored.
    """
    if transaction.written is None or not audit.is_stored(transaction.written):
        transaction.written = None
        transaction.decided = _decide_all(asks, attempts, throttle, sweeping, transaction)
    if accepted := [row for outcome, row in transaction.decided if outcome == Outcome.ACCEPTED and row is not None]:
        databases.on_commit(partial(_notify_workers, accepted))
    return transaction.decided


def _decide_all(
    asks: Sequence[CancellationRequest],
    attempts: Sequence[Attempt],
    throttle: BurstThrottle | None,
    sweeping: bool,
    transaction: _TransactionAttempt,
) -> list[Decided]:
    """Decide on each request, and write all of them with a few statements.

    A slot that a running call frees is given to a queued one. When many clients leave at once, their queued and running
    calls are therefore stored together, so that none of their queued calls starts.
    """
    ids = [_as_uuid(ask.request_id) for ask in asks]
    # Locked in the order of their keys, so that two transactions cannot wait for each other.
    rows = _rows().select_for_update().order_by("pk").in_bulk([pk for pk in ids if pk])
    at = clock.read()
    decided: list[Decided] = []
    written: list[Cancellation] = []
    counted: Counter[AttemptKind] = Counter()
    stopping: defaultdict[Attempt, list[Request]] = defaultdict(list)
    closing: defaultdict[Attempt, list[Request]] = defaultdict(list)
    accepted: set[UUID] = set()
    for ask, attempt, pk in zip(asks, attempts, ids, strict=True):
        row = rows.get(pk) if pk else None
        outcome = _decide(row, ask.principal, accepted)
        decided.append((outcome, row))
        if row is None or outcome != Outcome.ACCEPTED:
            if not sweeping and _count_ineffective(attempt, outcome, ask, throttle, counted):
                written.append(audit.unaccepted(attempt, outcome, row=row, requested_id=ask.request_id, at=at))
            continue
        accepted.add(row.pk)
        is_running = row.status == Status.RUNNING
        transaction.written = (audit.accepted_running if is_running else audit.accepted_waiting)(attempt, row, at=at)
        written.append(transaction.written)
        (stopping if is_running else closing)[attempt].append(row)
        if not is_running:
            row.status = Status.CANCELLED
    audit.add(written)
    for attempt, running in stopping.items():
        transitions.request_stop(running, _story(attempt), **_columns(attempt))
    for attempt, waiting in closing.items():
        transitions.cancel_waiting(waiting, _story(attempt), **_columns(attempt))
    return decided


def _count_ineffective(
    attempt: Attempt,
    outcome: Outcome,
    ask: CancellationRequest,
    throttle: BurstThrottle | None,
    counted: Counter[AttemptKind],
) -> bool:
    """Count an attempt that changes nothing, on commit. Return whether it gets an audit row of its own.

    `counted` has the attempts in this transaction, by kind.
    """
    if throttle is None or ask.principal is None:
        return True
    kind = AttemptKind(attempt.cause, attempt.actor, outcome)
    admitted = throttle.admits(kind, beside=counted[kind])
    counted[kind] += admitted
    databases.on_commit(partial(throttle.add, kind, recorded=admitted))
    return admitted


def _rows() -> QuerySet[Request]:
    """Return requests without the columns that may be large."""
    return Request.objects.defer("arguments", "result", "partial_result", "unredacted")


def _decide(row: Request | None, principal: Principal | None, accepted: Container[UUID]) -> Outcome:
    if row is None:
        return Outcome.UNKNOWN
    if principal is not None and not principal.owns(row):
        return Outcome.DENIED
    if row.status not in OPEN:
        return Outcome.TOO_LATE
    if row.cancel_requested_at is not None or row.pk in accepted:
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


def _notify_workers(accepted: Sequence[Request]) -> None:
    """Notify the workers: one command to stop running calls, one to drop the messages of closed ones."""
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
