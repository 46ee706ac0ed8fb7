"""Celery's worker and ours: control commands, its queues, the ladder's start and end.

With `prefork`, `threads` and `async_pool` the only module that speaks of Celery's worker internals. Refuses to run
tools in a pool that is none of these, and leaves alone the workers of a site that consume none of the tools' queues.
"""

import atexit
import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import current_process
from typing import Any
from uuid import UUID

from celery import signals
from celery.concurrency import get_implementation
from celery.concurrency.prefork import TaskPool
from celery.concurrency.thread import TaskPool as ThreadTaskPool
from celery.exceptions import WorkerLostError, WorkerTerminate
from celery.worker import state as worker_state
from celery.worker.control import control_command, inspect_command
from django.db import Error, connections

from mcp_app import loaded
from mcp_app.catalogue import rows
from mcp_app.conf import settings
from mcp_app.execution import async_pool, broker_loss, job_writes, messages
from mcp_app.execution.async_ladder import AsyncLadder
from mcp_app.execution.child import UnsupportedPoolError, open_for_threads
from mcp_app.execution.identity import worker_identity
from mcp_app.execution.ladder import Ladder
from mcp_app.execution.main_database import guard_forks, visit
from mcp_app.execution.prefork import PreforkLadder, PreforkPool
from mcp_app.execution.recorder import RETRY_SECONDS, insist
from mcp_app.execution.threads import ThreadsLadder, ThreadsPool
from mcp_app.lifecycle.publishing import (
    CANCEL_COMMAND,
    OVERDUE_COMMAND,
    PRESENCE_COMMAND,
    REVOKE_COMMAND,
    RUN_BATCH_TASK,
    RUN_TASK,
    SHUTDOWN_COMMAND,
)

logger = logging.getLogger(__name__)


class ToolQueues:
    """The queues of a worker that takes every tool's calls: it learns of those that are new while it runs."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._consumed = set(worker.app.amqp.queues.consume_from)

    def look(self) -> None:
        """Have the worker consume what tools were given since the last look. On the ladder's thread."""
        for queue in sorted(rows.queues() - self._consumed):
            self._worker.consumer.call_soon(self._consume, queue)
            self._consumed.add(queue)

    def _consume(self, queue: str) -> None:
        """In the worker's loop. Celery keeps the queue's name, so that a new connection consumes it in any case."""
        try:
            self._worker.consumer.add_task_queue(queue)
        except Exception:
            logger.exception("queue %s is consumed from the next connection on", queue)
        else:
            logger.warning("queue %s is new, and consumed from now on", queue)


def take_for_tools(worker: Any, *, follows: bool) -> None:
    """Have a Celery worker that was not started yet run tools alone; `follows`: also of queues given to them later."""
    worker.is_for_tools, worker.follows_tool_queues = True, follows


_ladders: dict[int, Ladder] = {}


def _ladder() -> Ladder | None:
    return _ladders.get(os.getpid())


def _look(step: Callable[[Ladder, UUID], None], request_ids: list[str]) -> dict[str, str]:
    ladder = _ladder()
    if ladder is not None:
        for request_id in request_ids:
            step(ladder, UUID(request_id))
    return {"ok": "looking"}


@control_command(name=CANCEL_COMMAND, variadic="request_ids", signature="[request id …]")
def cancel_requested(state: Any, request_ids: list[str], **kwargs: Any) -> dict[str, str]:
    """Requests of this site were asked to stop: look at their rows."""
    return _look(Ladder.cancel_requested, request_ids)


@control_command(name=OVERDUE_COMMAND, variadic="request_ids", signature="[request id …]")
def overdue(state: Any, request_ids: list[str], **kwargs: Any) -> dict[str, str]:
    """The time limits of these runs have passed, each a request and its rounds of input so far: look at their rows."""
    ladder = _ladder()
    if ladder is not None:
        for run in request_ids:
            request_id, _, input_round = run.partition("/")
            ladder.overdue(UUID(request_id), int(input_round))
    return {"ok": "looking"}


@control_command(name=SHUTDOWN_COMMAND, variadic="request_ids", signature="[request id …]")
def process_ends(state: Any, request_ids: list[str], **kwargs: Any) -> dict[str, str]:
    """The processes that run these requests are to end: cancel those that are ours."""
    return _look(Ladder.process_ends, request_ids)


@control_command(name=REVOKE_COMMAND, variadic="request_ids", signature="[request id …]")
def revoke(state: Any, request_ids: list[str], **kwargs: Any) -> dict[str, str]:
    """Requests of this site were closed while queued: drop their messages without troubling a child."""
    worker_state.revoked.update(request_ids)
    return {"ok": "revoked"}


@inspect_command(name=PRESENCE_COMMAND)
def presence(state: Any, **kwargs: Any) -> dict[str, Any]:
    """Who this worker is, what it consumes, and which time it has: what no row of its says."""
    identity = worker_identity()
    worker, consumer = state.consumer.controller, state.consumer.task_consumer
    return {
        "boot_id": str(identity.boot_id),
        "hostname": identity.hostname,
        "pid": identity.pid,
        "pool": _name(worker.pool),
        "slots": worker.concurrency,
        "queues": [] if consumer is None else sorted(queue.name for queue in consumer.queues),
        "runs_tools": _ladder() is not None,
        "time": time.time(),
    }


def _name(pool: Any) -> str:
    if isinstance(pool, async_pool.TaskPool):
        return "async"
    return "threads" if isinstance(pool, ThreadTaskPool) else type(pool).__module__.rsplit(".")[-1]


@signals.celeryd_init.connect
def _configure(instance: Any, **kwargs: Any) -> None:
    broker_loss.prepare(instance.app)


@signals.worker_init.connect
def _prepare(sender: Any, **kwargs: Any) -> None:
    worker_identity()
    loaded.keep()  # before the pool is forked: a collection in a child would copy the pages that it looks through
    if issubclass(get_implementation(sender.pool_cls), TaskPool):
        guard_forks()  # elsewhere this process runs tools, whose forks and connections are their own
        # The pool's shared memory is a file without a name, made in a folder that a killed worker could not remove.
        vars(current_process())["_config"].setdefault("tempdir", tempfile.gettempdir())


@signals.worker_ready.connect
def _start(sender: Any, **kwargs: Any) -> None:
    worker = sender.controller
    if not _consumes_tools(worker):
        return
    ladder = _ladders[os.getpid()] = _ladder_for(worker)
    if isinstance(ladder, PreforkLadder):
        job_writes.install(worker, job_writes.patience())
    if isinstance(ladder, ThreadsLadder):
        ladder.soon(ladder.warn)
    if getattr(worker, "follows_tool_queues", False):
        queues = ToolQueues(worker)
        # Where nothing happens, nothing waits in a new queue either.
        ladder.every(settings.SUPERVISION_INTERVAL, lambda: None if ladder.rests else queues.look())
    ladder.start()
    atexit.register(_stop, None)  # a cold shutdown sends no signal when it is over


def _consumes_tools(worker: Any) -> bool:
    """Whether some queue of a worker is one that tools are sent to."""
    consumed = set(worker.app.amqp.queues.consume_from)
    if consumed & rows.declared_queues():
        return True
    is_for_tools = getattr(worker, "is_for_tools", False)
    try:
        return bool(consumed & insist(_tool_queues, time.monotonic() + (RETRY_SECONDS if is_for_tools else 0.0)))
    except Error as error:
        if not is_for_tools:
            logger.error("whether tools are sent to this worker's queues cannot be read: %s", str(error).strip())
            return False
        # Celery passes over what a receiver raises: this worker would take calls that nobody stops or vouches for.
        logger.critical("this worker cannot find out which tools are its own, and ends: %s", str(error).strip())
        raise WorkerTerminate(os.EX_TEMPFAIL) from error


def _tool_queues() -> set[str]:
    with visit():
        return rows.queues()


@signals.worker_shutting_down.connect
def _shut_down(sender: Any, how: str, **kwargs: Any) -> None:
    """In a signal handler; of a cold shutdown only after its wait for the pool, long after `_cancelled_by_celery`."""
    ladder = _ladder()
    if ladder is not None:
        if how == "Warm":
            ladder.drain()
        else:
            ladder.end_now()


@signals.task_retry.connect
def _cancelled_by_celery(sender: Any, **kwargs: Any) -> None:
    """In a signal handler: how a cold shutdown begins, for each task that runs. No task of ours is retried."""
    ladder = _ladder()
    if ladder is not None and sender.name in (RUN_TASK, RUN_BATCH_TASK):
        ladder.end_now()


def _ladder_for(worker: Any) -> Ladder:
    """Raises WorkerTerminate for a pool in which tools cannot run."""
    if isinstance(worker.pool, TaskPool):
        return PreforkLadder(worker_identity(), PreforkPool(worker))
    if isinstance(worker.pool, async_pool.TaskPool):
        return AsyncLadder(worker_identity(), ThreadsPool(worker), open_for_threads(), worker.pool.loop)
    if isinstance(worker.pool, ThreadTaskPool):
        return ThreadsLadder(worker_identity(), ThreadsPool(worker), open_for_threads())
    logger.critical(UnsupportedPoolError.__doc__)
    raise WorkerTerminate(os.EX_USAGE)


@signals.worker_shutdown.connect
def _stop(sender: Any, **kwargs: Any) -> None:
    ladder = _ladders.pop(os.getpid(), None)
    if ladder is not None:
        ladder.stop()


@signals.task_postrun.connect
def _let_go(sender: Any, **kwargs: Any) -> None:
    """A process has a connection or two; two hundred threads would have more than a database server gives away."""
    if isinstance(_ladder(), ThreadsLadder) and not async_pool.is_at_desk():
        connections.close_all()


@signals.task_failure.connect
def _failed(sender: Any, exception: BaseException, args: Any, **kwargs: Any) -> None:
    ladder = _ladder()
    if ladder is not None and sender.name in (RUN_TASK, RUN_BATCH_TASK) and isinstance(exception, WorkerLostError):
        for request_id in args:
            ladder.child_lost(UUID(request_id))


@messages.batch_begun.connect
def _batch_begun(sender: Any, **kwargs: Any) -> None:
    if (ladder := _ladder()) is not None:
        ladder.left_behind.begun(sender)


@messages.batch_broken.connect
def _batch_broken(request_ids: list[str], **kwargs: Any) -> None:
    if (ladder := _ladder()) is not None:
        ladder.left_behind.broken(request_ids)


@signals.task_revoked.connect
def _revoked(sender: Any, request: Any, terminated: bool, **kwargs: Any) -> None:
    ladder = _ladder()
    if ladder is not None and sender.name == RUN_TASK:
        reason = "terminated" if terminated else "revoked"
        ladder.soon(partial(sender.backend.mark_as_revoked, request.id, reason, request=request, store_result=True))
