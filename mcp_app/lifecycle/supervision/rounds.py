"""Supervision rounds: find requests that a dead process left behind, and end those that expired.

Theory of operation
-------------------

Any process can die at any moment, together with its timers and open connections. What it was doing
is still in the database. A supervision round compares the rows with the heartbeats of the processes
and ends what no process will end any more. These are the rules:

1. *Three kinds of processes carry out rounds*: the main process of a worker, a server process while
   clients wait in it, and `mcp supervise`. Each one has a timer and calls `take_turn`. The process
   that starts a round writes the time into its row (`processes.begin_round`), and the others skip
   theirs. So the cost for a site does not grow with the number of processes. In worker processes
   and in `mcp supervise`, the module `idle` also skips rounds while nothing happens at the site.

2. *A round is a list of independent steps* (`supervise`). A step that raises is logged and does not
   prevent the next ones. The next round tries it again.

3. *Every step is conditional*. It writes with a condition on the status that it has read: `UPDATE …
   WHERE status = …`, or a transition of `lifecycle.requests.transitions`. Two processes may
   therefore carry out the same step at the same time: the second write changes nothing.

4. *Every step is bounded*. It handles `BATCH` rows at most, and stops after a part of `LOST_AFTER`
   (`processes.share`), because heartbeats come from the same thread in some processes. The next
   round continues.

5. *A process counts as dead* if its heartbeat is older than `LOST_AFTER`, or if its row says that
   it has stopped. No process counts as dead while this one cannot write its own heartbeat: then the
   database is the problem. The same is true after the database's clock was set
   (`processes.not_lost`).

6. *A tool never runs twice.* A running request whose worker is dead becomes `LOST`, which is an
   error for its client. Only queued requests, which have not started, are published again.

7. *Order matters in two places.* The step of `clock_jumps` comes before the steps that compare
   waits with the clock. Statistics come last, so that they count the requests that the round has
   ended.

Time limits of running tools are not among the steps: the worker measures them by a clock that
cannot be set, and calls `cancel_at_limit`.
"""

import logging
from collections.abc import Callable
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError
from django.db.models import Exists, F, Q, QuerySet

from mcp_app.celery_adapter import results
from mcp_app.conf import settings
from mcp_app.lifecycle import children, publishing, redaction
from mcp_app.lifecycle.audit import sealing
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.input import read_questions
from mcp_app.lifecycle.liveness import processes, queues
from mcp_app.lifecycle.liveness.processes import Identity, not_lost
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.sessions import call_connections, listen_streams, session_streams, sessions
from mcp_app.lifecycle.statistics import tallies
from mcp_app.lifecycle.supervision import change_versions, clock_jumps, dead_servers, unconsumed_queues
from mcp_app.models import Process, Request
from mcp_app.states import OPEN, Cause, ProcessRole, Status

logger = logging.getLogger(__name__)

BATCH = 500
FORGET_AFTER = 86_400.0


def supervise(beat: Callable[[], object] = lambda: None) -> bool:
    """Carry out one round. Return false if a step failed; the next round tries that step again.

    `beat` is called after each step. It is for a process that writes its heartbeat on this thread.
    """
    steps = (
        lose_requests_of_silent_workers,
        dead_servers.cancel_calls_of_dead_servers,
        cancel_requests_of_silent_servers,
        clock_jumps.restart_waits_if_clock_was_set,
        call_connections.disconnect_calls_of_silent_servers,
        call_connections.cancel_abandoned_calls,
        cancel_overdue_requests,
        cancel_expired_tasks,
        sessions.cancel_orphaned_calls,
        children.cancel_orphans,
        republish_unclaimed_requests,
        session_streams.release_those_of_silent_servers,
        listen_streams.forget_those_of_silent_servers,
        read_questions.forget_orphans,
        sessions.expire,
        forget_old_processes,
        change_versions.forget_old_versions,
        redaction.forget_unclaimed,
        check_queues,
        sealing.seal_final_attempts,
        tallies.count_ended,
        tallies.store_ended_days,
    )
    outcomes = []
    for step in steps:
        outcomes.append(_run_step(step))
        _run_step(beat)
    return all(outcomes)


def take_turn(identity: Identity, beat: Callable[[], object] = lambda: None) -> bool:
    """Carry out a round, unless another process has just begun one.

    Return false if a step failed. If the database cannot be reached, log that and return true.
    """
    try:
        is_due = processes.begin_round(identity)
    except Error as error:
        logger.error("supervision could not read whose turn it is: %s", str(error).strip())
        return True
    return supervise(beat) if is_due else True


def lose_requests_of_silent_workers() -> None:
    """Mark running requests as LOST if their worker has stopped or was silent for `LOST_AFTER`."""
    running = Request.objects.filter(status=Status.RUNNING, worker__isnull=False)
    silent = running.exclude(Exists(not_lost("worker", ProcessRole.WORKER)))
    for request_id, worker in processes.share(_oldest(silent).values_list("pk", "worker")):
        mark_lost(request_id, "its worker process died or sent no more heartbeats", worker=worker)


def cancel_requests_of_silent_servers() -> None:
    """Cancel the calls whose clients waited in a server process that is dead.

    Its clients have lost their connections, so this is a disconnect. See `dead_servers.waited_for`.
    """
    silent = (
        dead_servers.waited_for()
        .exclude(Exists(not_lost("server", ProcessRole.SERVER)))
        .filter(queued_at__lt=from_now(-settings.LOST_AFTER))
    )
    ids = _queued_first(silent).values_list("pk", flat=True)
    requests = (
        CancellationRequest(request_id, Cause.LOST_SERVER, SYSTEM, dead_servers.REASON)
        for request_id in processes.share(ids)
    )
    cancellation.sweep(requests)


def cancel_overdue_requests() -> None:
    """Cancel requests that have waited too long, in the queue or for their client's answers.

    The time of running requests is measured by their worker (`cancel_at_limit`).
    """
    _cancel_as_overdue(_without_cancel_request().exclude(status=Status.RUNNING).filter(deadline_at__lt=from_now(0)))


def cancel_at_limit(running: QuerySet[Request]) -> None:
    """Cancel `running` requests, whose time limit has passed by the clock of their worker."""
    _cancel_as_overdue(_without_cancel_request(running).filter(status=Status.RUNNING))


def _cancel_as_overdue(overdue: QuerySet[Request]) -> None:
    found = _queued_first(overdue).only("status", "time_limit", "caller_limit", "queued_at", "claimed_at")
    cancellation.sweep(
        CancellationRequest(row.pk, Cause.DEADLINE, SYSTEM, _why_overdue(row)) for row in processes.share(found)
    )


def cancel_expired_tasks() -> None:
    """Cancel open requests whose task has expired.

    A client can no longer get the result of an expired task, or cancel it (ext-tasks, `ttlMs`).
    """
    expired = _without_cancel_request().filter(task_expires_at__lt=from_now(0))
    ids = _queued_first(expired).values_list("pk", flat=True)
    why = "its task has expired"
    cancellation.sweep(
        CancellationRequest(request_id, Cause.DEADLINE, SYSTEM, why) for request_id in processes.share(ids)
    )


def republish_unclaimed_requests() -> None:
    """Publish queued requests again, after a delay that doubles each time.

    A message may be lost, or may only be waiting in a long queue. A second message does no harm,
    because only one of them can claim the row. Of several supervising processes only the one whose
    update changes `published_at` publishes.
    """
    due = Request.objects.filter(
        Q(published_at__isnull=True) | Q(published_at__lte=from_now(0) - (F("published_at") - F("queued_at"))),
        status=Status.QUEUED,
        queued_at__lt=from_now(-settings.REPUBLISH_AFTER),
    )
    for request_id, queue, published_at in processes.share(_oldest(due).values_list("pk", "queue", "published_at")):
        if due.filter(pk=request_id).update(published_at=from_now(0)):
            try:
                publishing.send(request_id, queue)
            except Exception:
                # Nothing was published, so the row must be due in the next round.
                unclaimed = Request.objects.filter(pk=request_id, status=Status.QUEUED)
                unclaimed.update(published_at=published_at)
                raise
            logger.warning("no worker claimed request %s; it is published again", request_id)


def check_queues() -> None:
    """Log the queues that no worker consumes, and those in which requests wait for too long."""
    ages = queues.queue_ages()
    queues.raise_alarms(ages)
    unconsumed_queues.report(ages)


def forget_old_processes() -> None:
    """Delete the rows of processes a day after their last heartbeat.

    A process without a row counts as dead, too.
    """
    Process.objects.filter(heartbeat_at__lt=from_now(-FORGET_AFTER)).delete()


def mark_lost(request_id: UUID, why: str, *, worker: UUID | None = None) -> bool:
    """Mark a running request as LOST, cancel its children, and store Celery's result.

    `fenced` rows are those whose kill had begun. Return false if the request has ended, or is
    another worker's by now.
    """
    error = {"cause": "lost", "message": why}
    lost = any(
        transitions.finish(request_id, Status.LOST, worker=worker, fenced=fenced, error=error)
        for fenced in (False, True)
    )
    if lost:
        logger.error("request %s is lost: %s", request_id, why)
        cancellation.cancel_children([request_id])
        results.store_lost(request_id, why)
    return lost


def _why_overdue(row: Request) -> str:
    if row.status == Status.INPUT_REQUIRED:
        return "its question was not answered in time"
    callers = f"the caller's time limit of {row.caller_limit} s has passed"
    if row.status == Status.RUNNING:
        return callers if row.run_limit < row.time_limit else f"the time limit of {row.time_limit:g} s has passed"
    hurried = row.caller_limit is not None and row.caller_limit < settings.MAX_QUEUE_SECONDS
    return callers if hurried else "no worker claimed it in time"


def _without_cancel_request(among: QuerySet[Request] | None = None) -> QuerySet[Request]:
    requests = Request.objects.all() if among is None else among
    return requests.filter(status__in=OPEN, cancel_requested_at__isnull=True)


def _oldest(requests: QuerySet[Request]) -> QuerySet[Request]:
    """Limit the requests to one batch, oldest first, so that every request has its turn."""
    return requests.order_by("submitted_at")[:BATCH]


def _queued_first(requests: QuerySet[Request]) -> QuerySet[Request]:
    """Limit requests to cancel to one batch.

    Queued requests come first: otherwise a slot that becomes free could be given to one of them.
    """
    return requests.order_by("status", "submitted_at")[:BATCH]


def _run_step(step: Callable[[], object]) -> bool:
    try:
        with processes.listening():
            step()
    except (OperationalError, InterfaceError) as error:
        # If the database is down, every step fails in every round: no tracebacks.
        logger.error("supervision: %s failed and is tried again: %s", step.__name__, str(error).strip())
        return False
    except Exception:
        logger.exception("supervision: %s failed and is tried again", step.__name__)
        return False
    return True
