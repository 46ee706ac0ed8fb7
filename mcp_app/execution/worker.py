"""Celery's worker and ours: control commands, the pool as the ladder sees it, its queues, the ladder's start and end.

The only module that speaks of Celery's worker internals. Refuses to run tools in a pool that is not prefork, and leaves
alone the site's workers that consume none of the tools' queues.
"""

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from celery import signals
from celery.concurrency.prefork import TaskPool
from celery.exceptions import WorkerLostError, WorkerTerminate
from celery.worker import state as worker_state
from celery.worker.control import control_command

from mcp_app.catalogue import rows
from mcp_app.conf import settings
from mcp_app.execution.child import UnsupportedPoolError
from mcp_app.execution.identity import worker_identity
from mcp_app.execution.ladder import Ladder
from mcp_app.execution.main_database import guard_forks, visit
from mcp_app.lifecycle.publishing import CANCEL_COMMAND, OVERDUE_COMMAND, REVOKE_COMMAND, RUN_TASK

logger = logging.getLogger(__name__)


class PreforkPool:
    """Celery's prefork pool, as the ladder sees it."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def pids(self) -> set[int]:
        pool = getattr(self._worker.pool, "_pool", None)
        return {child.pid for child in list(pool._pool)} if pool is not None else set()

    def terminate(self, request_id: UUID, pid: int) -> None:
        for child in list(self._worker.pool._pool._pool):
            if child.pid == pid:
                # Set before the kill: the main thread may see the death first and would call it an accident.
                child._controlled_termination = child._job_terminated = True
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # by ourselves: Celery may not have heard yet that it runs this request
        request = next((r for r in list(worker_state.active_requests) if r.id == str(request_id)), None)
        if request is not None:
            try:
                request.terminate(self._worker.pool, signal="KILL")
            except Exception:
                logger.exception("Celery could not be told that request %s was killed", request_id)


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


def follow_queues(worker: Any) -> None:
    """Have a Celery worker that was not started yet consume the queues that tools are given later, too."""
    worker.follows_tool_queues = True


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
    """The time limits of running requests have passed: look at their rows."""
    return _look(Ladder.overdue, request_ids)


@control_command(name=REVOKE_COMMAND, variadic="request_ids", signature="[request id …]")
def revoke(state: Any, request_ids: list[str], **kwargs: Any) -> dict[str, str]:
    """Requests of this site were closed while queued: drop their messages without troubling a child."""
    worker_state.revoked.update(request_ids)
    return {"ok": "revoked"}


@signals.worker_init.connect
def _prepare(sender: Any, **kwargs: Any) -> None:
    worker_identity()
    guard_forks()


@signals.worker_ready.connect
def _start(sender: Any, **kwargs: Any) -> None:
    worker = sender.controller
    consumed = set(worker.app.amqp.queues.consume_from)
    with visit():
        tool_queues = rows.queues()
    if not consumed & tool_queues:
        return
    if not isinstance(worker.pool, TaskPool):
        logger.critical(UnsupportedPoolError.__doc__)
        raise WorkerTerminate(os.EX_USAGE)
    ladder = _ladders[os.getpid()] = Ladder(worker_identity(), PreforkPool(worker))
    if getattr(worker, "follows_tool_queues", False):
        ladder.every(settings.SUPERVISION_INTERVAL, ToolQueues(worker).look)
    ladder.start()


@signals.worker_shutdown.connect
def _stop(sender: Any, **kwargs: Any) -> None:
    ladder = _ladders.pop(os.getpid(), None)
    if ladder is not None:
        ladder.stop()


@signals.task_failure.connect
def _failed(sender: Any, task_id: str, exception: BaseException, **kwargs: Any) -> None:
    ladder = _ladder()
    if ladder is not None and sender.name == RUN_TASK and isinstance(exception, WorkerLostError):
        ladder.child_lost(UUID(task_id))
