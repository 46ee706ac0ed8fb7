"""Supervision: finds what was lost and finishes what nobody else will. Every step is conditional: twice is once.

Workers' main processes, server processes while clients wait in them, and `mcp supervise` take turns at it, on a timer.
Refuses to run a tool again: a lost call is an error for its client, never a silent second run.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError
from django.db.models import Exists, F, Q, QuerySet

from mcp_app.auth import local
from mcp_app.conf import settings
from mcp_app.lifecycle import (
    cancellation,
    celery_results,
    children,
    day_tallies,
    followers,
    forgetting,
    listen_streams,
    originals,
    processes,
    publishing,
    queue_ages,
    read_questions,
    sealing,
    session_streams,
    sessions,
    tallies,
    transitions,
)
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.processes import Identity, not_lost
from mcp_app.models import Process, Request
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import OPEN, Cause, ProcessRole, Status

logger = logging.getLogger(__name__)

BATCH = 500
FORGET_AFTER = 86_400.0
AWAITED = OPEN - {Status.INPUT_REQUIRED}
"""Where a request is whose client waits for a response."""
LEGACY = Q(protocol_version__in=LEGACY_REVISIONS)
OVER_STDIO = Q(issuer=local.ISSUER)


def supervise(beat: Callable[[], object] = lambda: None) -> bool:
    """One round; whether nothing failed. A step that does is logged and the others still run: the next round tries
    again.

    `beat` is called after each step, for a process whose heart beats on this thread.
    """
    steps = (
        lose_requests_of_silent_workers,
        cancel_requests_of_silent_servers,
        followers.leave_calls_of_silent_servers,
        followers.cancel_abandoned_calls,
        cancel_overdue_requests,
        cancel_expired_tasks,
        sessions.cancel_calls_of_ended,
        children.cancel_orphans,
        republish_unclaimed_requests,
        session_streams.release_those_of_silent_servers,
        listen_streams.forget_those_of_silent_servers,
        read_questions.forget_orphans,
        sessions.expire,
        forget_old_processes,
        forgetting.forget_old_versions,
        originals.forget_unclaimed,
        queue_ages.raise_alarms,
        sealing.seal_final_attempts,
        tallies.count_ended,
        day_tallies.add_ended_days,
    )
    outcomes = []
    for step in steps:
        outcomes.append(_guarded(step))
        _guarded(beat)
    return all(outcomes)


def take_turn(identity: Identity, beat: Callable[[], object] = lambda: None) -> bool:
    """A round, unless one was begun lately: supervision costs a site the same however many processes take turns.

    Whether nothing failed in it; a database that is away is logged, and no failure, as in a round.
    """
    try:
        is_due = processes.begin_round(identity)
    except Error as error:
        logger.error("supervision: whose turn it is cannot be read: %s", str(error).strip())
        return True
    return supervise(beat) if is_due else True


def lose_requests_of_silent_workers() -> None:
    """RUNNING → LOST where the worker has been silent for `LOST_AFTER` seconds or says that it stopped."""
    running = Request.objects.filter(status=Status.RUNNING, worker__isnull=False)
    silent = running.exclude(Exists(not_lost("worker", ProcessRole.WORKER)))
    for request_id, worker in processes.share(_oldest(silent).values_list("pk", "worker")):
        lose(request_id, "its worker process died or went silent", worker=worker)


def cancel_requests_of_silent_servers() -> None:
    """A dead server's clients are gone: where there is no session, that is a disconnect, where that cancels.

    Not for a request that asks its client: that one has its response, and comes back to any server process; but over
    stdio a legacy client is asked on its connection, and can answer on no other.
    """
    asking = Q(status=Status.INPUT_REQUIRED) & LEGACY & OVER_STDIO
    orphans = (
        Request.objects.filter(Q(status__in=AWAITED) | asking)
        .filter(cancel_requested_at__isnull=True, server__isnull=False, session__isnull=True)
        .exclude(Exists(not_lost("server", ProcessRole.SERVER)))
        .filter(queued_at__lt=from_now(-settings.LOST_AFTER))
    )
    if not settings.SESSIONLESS_DISCONNECT_CANCELS:
        orphans = orphans.exclude(LEGACY & ~OVER_STDIO)
    reason = "the server process died or went silent"
    ids = _oldest(orphans).values_list("pk", flat=True)
    cancellation.sweep(Ask(request_id, Cause.LOST_SERVER, SYSTEM, reason) for request_id in processes.share(ids))


def cancel_overdue_requests() -> None:
    """Past the deadline: for its claim while queued, for its answers while it asks, for its end while running."""
    _cancel_as_overdue(_unasked_to_stop().filter(deadline_at__lt=from_now(0)))


def cancel_at_limit(running: QuerySet[Request]) -> None:
    """Past the time limit by the clock of the process that runs it, whatever the database's says meanwhile."""
    _cancel_as_overdue(_unasked_to_stop(running).filter(status=Status.RUNNING))


def _cancel_as_overdue(overdue: QuerySet[Request]) -> None:
    found = _oldest(overdue).only("status", "time_limit", "caller_limit", "queued_at", "claimed_at")
    cancellation.sweep(Ask(row.pk, Cause.DEADLINE, SYSTEM, _why_overdue(row)) for row in processes.share(found))


def cancel_expired_tasks() -> None:
    """Past its task's expiry nobody can ask for the result of a request, or cancel it (ext-tasks, `ttlMs`)."""
    expired = _unasked_to_stop().filter(task_expires_at__lt=from_now(0))
    ids = _oldest(expired).values_list("pk", flat=True)
    why = "its task has expired"
    cancellation.sweep(Ask(request_id, Cause.DEADLINE, SYSTEM, why) for request_id in processes.share(ids))


def republish_unclaimed_requests() -> None:
    """Send queued rows again, each time after twice as long: a message may be lost, or merely wait its turn.

    The claim lets only one of a row's messages run. Whoever moves `published_at` sends: of many supervisors, one.
    """
    due = Request.objects.filter(
        Q(published_at__isnull=True) | Q(published_at__lte=from_now(0) - (F("published_at") - F("queued_at"))),
        status=Status.QUEUED,
        queued_at__lt=from_now(-settings.REPUBLISH_AFTER),
    )
    for request_id, queue, published_at in processes.share(_oldest(due).values_list("pk", "queue", "published_at")):
        if due.filter(pk=request_id).update(published_at=from_now(0)):
            _republish(request_id, queue, published_at)


def forget_old_processes() -> None:
    """Drop liveness rows a day after their last word: without one a process counts as dead just the same."""
    Process.objects.filter(heartbeat_at__lt=from_now(-FORGET_AFTER)).delete()


def lose(request_id: UUID, why: str, *, worker: UUID | None = None) -> bool:
    """RUNNING → LOST, if it is still `worker`'s; whether it took. Half-killed rows are closed by the same word."""
    error = {"cause": "lost", "message": why}
    lost = any(
        transitions.finish(request_id, Status.LOST, worker=worker, fenced=fenced, error=error)
        for fenced in (False, True)
    )
    if lost:
        logger.error("request %s is lost: %s", request_id, why)
        cancellation.cancel_children([request_id])
        celery_results.tell_lost(request_id, why)
    return lost


def _why_overdue(row: Request) -> str:
    if row.status == Status.INPUT_REQUIRED:
        return "nobody answered in time"
    callers = f"the {row.caller_limit} s that its caller gave it have passed"
    if row.status == Status.RUNNING:
        return callers if row.run_limit < row.time_limit else f"the time limit of {row.time_limit:g} s has passed"
    hurried = row.caller_limit is not None and row.caller_limit < settings.MAX_QUEUE_SECONDS
    return callers if hurried else "no worker took it in time"


def _republish(request_id: UUID, queue: str, published_at: datetime | None) -> None:
    try:
        publishing.send(request_id, queue)
    except Exception:
        # Nothing was sent: it stays due for the next round.
        Request.objects.filter(pk=request_id, status=Status.QUEUED).update(published_at=published_at)
        raise
    logger.warning("request %s was claimed by nobody and is published again", request_id)


def _unasked_to_stop(among: QuerySet[Request] | None = None) -> QuerySet[Request]:
    requests = Request.objects.all() if among is None else among
    return requests.filter(status__in=OPEN, cancel_requested_at__isnull=True)


def _oldest(requests: QuerySet[Request]) -> QuerySet[Request]:
    """One round's share; the order lets none wait behind newer ones for ever."""
    return requests.order_by("submitted_at")[:BATCH]


def _guarded(step: Callable[[], object]) -> bool:
    try:
        with processes.listening():
            step()
    except (OperationalError, InterfaceError) as error:  # a database that is away fails them all, round after round
        logger.error("supervision: %s failed and is tried again: %s", step.__name__, str(error).strip())
        return False
    except Exception:
        logger.exception("supervision: %s failed and is tried again", step.__name__)
        return False
    return True
