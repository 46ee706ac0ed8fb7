"""This app's part of a Celery worker: its task, control commands and queues, and the start and end of its ladder.

Importing this module registers the task that runs a tool, two control commands, an inspect command
and receivers of Celery's signals. The signals of the worker's life, in their order:

    celeryd_init          limit the time that a lost broker takes, remember the options about queues
    worker_init           determine the worker's identity, which its children inherit; keep the
                          site's time limits out of the pool; choose the queues
    worker_ready          start the ladder, if the worker consumes a queue of the tools
    worker_shutting_down  let the ladder cancel calls that do not end in time
    worker_shutdown       stop the ladder; after a cold shutdown `atexit` does that

A worker of the site that consumes no queue of the tools gets no ladder, and its tasks run as before.
A worker that should run tools but cannot, because of its pool, exits with an error. So does a worker
that is only for tools and cannot read their queues.
"""

import atexit
import logging
import os
import time
from functools import partial
from typing import Any
from uuid import UUID

from celery import Task, shared_task, signals
from celery.exceptions import WorkerLostError
from celery.worker.control import control_command, inspect_command
from django.db import Error, connections

from mcp_app.catalogue import tool_rows
from mcp_app.celery_adapter import consumer as celery_consumer
from mcp_app.celery_adapter import pools
from mcp_app.celery_adapter.broker import (
    CANCEL_COMMAND,
    PRESENCE_COMMAND,
    REVOKE_COMMAND,
    RUN_TASK,
    parsed_id,
    request_id_of,
)
from mcp_app.celery_adapter.prefork import PreforkPool, leave_no_temporary_folder, watch_processes
from mcp_app.celery_adapter.thread_pool import ThreadsPool
from mcp_app.conf import settings
from mcp_app.execution import tool_queues
from mcp_app.execution.pools import async_pool
from mcp_app.execution.pools.async_pool import AsyncLadder
from mcp_app.execution.pools.prefork import PreforkLadder
from mcp_app.execution.pools.threads import ThreadsLadder
from mcp_app.execution.process import worker_pipe
from mcp_app.execution.process.child import UnsupportedPoolError, open_for_threads, worker_identity
from mcp_app.execution.process.ladder import Ladder
from mcp_app.execution.process.main_database import guard_forks, visit
from mcp_app.execution.recorder import RETRY_SECONDS, retry_while_away
from mcp_app.execution.run import runner
from mcp_app.execution.tool_queues import ToolQueues

logger = logging.getLogger(__name__)

_ladders: dict[int, Ladder] = {}
"""This process's ladder, by its process id. A forked child inherits the dictionary, but finds nothing under its own
id."""


@shared_task(
    name=RUN_TASK,
    Request="mcp_app.celery_adapter.request_class:ToolRequest",
    bind=True,
    acks_late=False,
    max_retries=0,
    # Zero overrides the site's CELERY_TASK_TIME_LIMIT. The ladder enforces the tool's own limit.
    time_limit=0,
    soft_time_limit=0,
    # The row shows how each run began and ended. Celery's result backend stores only runs that
    # failed, were revoked or were lost.
    ignore_result=True,
    store_errors_even_if_ignored=True,
)
def run_tool(self: Task, request_id: str) -> Any:
    """Run the tool of one request. The only argument is the row's id."""
    return runner.run(self, UUID(request_id), self.request.get(runner.REST))


def take_for_tools(worker: Any, *, follows: bool) -> None:
    """Mark a Celery worker, before it starts, as one that is only for tools: it exits if it cannot read their queues.

    With `follows`, it also consumes queues that are given to tools later.
    """
    worker.is_for_tools, worker.follows_tool_queues = True, follows


def _ladder() -> Ladder | None:
    return _ladders.get(os.getpid())


@control_command(name=CANCEL_COMMAND, variadic="request_ids", signature="[request id …]")
def cancel_requested(state: Any, request_ids: list[str], **kwargs: Any) -> dict[str, str]:
    """Make the ladder read the rows of these requests, which may have been cancelled."""
    if (ladder := _ladder()) is not None:
        for request_id in _parsed(request_ids):
            ladder.cancel_requested(request_id)
    return {"ok": "looking"}


@control_command(name=REVOKE_COMMAND, variadic="request_ids", signature="[request id …]")
def revoke(state: Any, request_ids: list[str], **kwargs: Any) -> dict[str, str]:
    """Drop the queued messages of these requests, if their rows show that they have ended."""

    def drop(closed: list[UUID]) -> None:
        state.consumer.call_soon(celery_consumer.revoke, closed)

    if (ladder := _ladder()) is not None:
        ladder.call_with_ended(_parsed(request_ids), drop)
    return {"ok": "looking"}


def _parsed(request_ids: Any) -> list[UUID]:
    """Return the valid ids in a control command, which anyone who can write to the broker can send."""
    given = request_ids if isinstance(request_ids, list) else []
    return [request_id for request_id in map(parsed_id, given) if request_id is not None]


@inspect_command(name=PRESENCE_COMMAND)
def presence(state: Any, **kwargs: Any) -> dict[str, Any]:
    """Return this worker's identity, the queues that it consumes, and the time of its clock."""
    identity = worker_identity()
    worker, consumer = state.consumer.controller, state.consumer.task_consumer
    return {
        "boot_id": str(identity.boot_id),
        "hostname": identity.hostname,
        "pid": identity.pid,
        "pool": pools.kind_of(worker.pool),
        "slots": worker.concurrency,
        "queues": [] if consumer is None else sorted(queue.name for queue in consumer.queues),
        "runs_tools": _ladder() is not None,
        "time": time.time(),
    }


@signals.celeryd_init.connect
def _configure(instance: Any, options: dict[str, Any], **kwargs: Any) -> None:
    celery_consumer.configure(instance.app)
    tool_queues.note_options(instance, options)


@signals.worker_init.connect
def keep_limits_out_of_pool(sender: Any, **kwargs: Any) -> None:
    """Keep the site's `CELERY_TASK_TIME_LIMIT` and soft limit away from the worker's pool.

    Celery gives both limits to each task without limits of its own, and to the pool as well. The pool
    would apply them even to a task whose own limit is 0, like ours. The site's tasks keep them.
    Limits that were given to `celery worker` as options stay, and end tools too.
    """
    conf = sender.app.conf
    if sender.time_limit == conf.task_time_limit:
        sender.time_limit = None
    if sender.soft_time_limit == conf.task_soft_time_limit:
        sender.soft_time_limit = None


@signals.worker_init.connect
def _prepare(sender: Any, **kwargs: Any) -> None:
    worker_identity()  # determined now, so that the children inherit it
    worker_pipe.make()
    if pools.is_prefork(sender.pool_cls):  # in other pools this process runs tools, which may fork and connect
        guard_forks()
        leave_no_temporary_folder()
    tool_queues.choose(sender)


@signals.worker_ready.connect
def _start(sender: Any, **kwargs: Any) -> None:
    worker = sender.controller
    if not _consumes_tools(worker):
        tool_queues.warn_of_pool(worker)
        return
    ladder = _ladders[os.getpid()] = _ladder_for(worker)
    if isinstance(ladder, PreforkLadder):
        watch_processes(worker)
    if isinstance(ladder, ThreadsLadder):
        signals.task_postrun.connect(_close_connections_of_thread)
        ladder.soon(ladder.warn)
    if getattr(worker, "follows_tool_queues", False):
        queues = ToolQueues(worker)
        # `is_idle`: the whole site has no open call, so no message waits in a new queue.
        ladder.every(settings.SUPERVISION_INTERVAL, lambda: None if ladder.is_idle else queues.consume_new())
    ladder.consumed_queues = lambda: sorted(worker.app.amqp.queues.consume_from)
    worker_pipe.read(ladder.overdue, ladder.process_ends)
    ladder.start()
    atexit.register(_stop, None)  # a cold shutdown sends no signal at its end


def _consumes_tools(worker: Any) -> bool:
    """Return whether a worker consumes a queue that tools are sent to.

    Raises `WorkerTerminate` if the worker is only for tools and cannot read their queues.
    """
    consumed = set(worker.app.amqp.queues.consume_from)
    if consumed & tool_rows.declared_queues():
        return True
    is_for_tools = getattr(worker, "is_for_tools", False)
    try:
        return bool(
            consumed & retry_while_away(_tool_queues, time.monotonic() + (RETRY_SECONDS if is_for_tools else 0.0))
        )
    except Error as error:
        if not is_for_tools:
            logger.error("the queues of the tools could not be read: %s", str(error).strip())
            return False
        # Celery ignores ordinary exceptions of a signal receiver. The worker would then take calls without a ladder.
        logger.critical("this worker could not read which tools it must run, so it exits: %s", str(error).strip())
        raise celery_consumer.ending(worker, os.EX_TEMPFAIL) from error


def _tool_queues() -> set[str]:
    with visit():
        return tool_rows.queues()


@signals.worker_shutting_down.connect
def _shut_down(sender: Any, how: str, **kwargs: Any) -> None:
    """Begin the shutdown of the ladder. This runs inside a handler of a Unix signal.

    In a cold shutdown Celery calls it only after it has waited for the pool. By then `_cold_shutdown_began` has ended
    the calls.
    """
    ladder = _ladder()
    if ladder is not None:
        if how == "Warm":
            ladder.drain()
        else:
            ladder.end_now()


@signals.task_retry.connect
def _cold_shutdown_began(sender: Any, **kwargs: Any) -> None:
    """End all calls at once. This runs inside a handler of a Unix signal.

    Celery sends `task_retry` for each running task when a cold shutdown begins. The task of this
    app is never retried for another reason.
    """
    ladder = _ladder()
    if ladder is not None and sender.name == RUN_TASK:
        ladder.end_now()


def _ladder_for(worker: Any) -> Ladder:
    """Return the ladder for the pool. Raises `WorkerTerminate` if tools cannot run in it."""
    kind = pools.kind_of(worker.pool)
    if kind == "prefork":
        return PreforkLadder(worker_identity(), PreforkPool(worker))
    if kind == "async":
        return AsyncLadder(worker_identity(), ThreadsPool(worker), open_for_threads(), worker.pool.loop)
    if kind == "threads":
        return ThreadsLadder(worker_identity(), ThreadsPool(worker), open_for_threads())
    why = "this worker consumes queues of tools, but tools cannot run in its pool, so it exits"
    logger.critical("%s. %s", why, UnsupportedPoolError.__doc__)
    raise celery_consumer.ending(worker, os.EX_USAGE)


@signals.worker_shutdown.connect
def _stop(sender: Any, **kwargs: Any) -> None:
    ladder = _ladders.pop(os.getpid(), None)
    if ladder is not None:
        ladder.stop()


def _close_connections_of_thread(sender: Any, **kwargs: Any) -> None:
    """Close a thread's database connections after each task. Connected in workers with threads only.

    The processes of a prefork pool keep their one or two. Those of two hundred threads are more than a database server
    allows.
    """
    if not async_pool.keeps_connections():
        connections.close_all()


@signals.task_failure.connect
def _failed(sender: Any, exception: BaseException, args: Any, **kwargs: Any) -> None:
    """Report a run whose process died."""
    ladder = _ladder()
    if ladder is not None and sender.name == RUN_TASK and isinstance(exception, WorkerLostError):
        ladder.child_lost(UUID(args[0]))


@signals.task_rejected.connect
def _rejected(sender: Any, message: Any, exc: Exception | None, **kwargs: Any) -> None:
    """Fail a request whose message cannot be read. Otherwise it would wait until its deadline."""
    request_id = request_id_of(message)
    if (ladder := _ladder()) is not None and request_id is not None:
        ladder.message_rejected(request_id, f"{type(exc).__name__}: {exc}")


@signals.task_revoked.connect
def _revoked(sender: Any, request: Any, terminated: bool, **kwargs: Any) -> None:
    """Store the revocation in Celery's result backend. Celery does not, because the task ignores results."""
    ladder = _ladder()
    if ladder is not None and sender.name == RUN_TASK:
        reason = "terminated" if terminated else "revoked"
        ladder.soon(partial(sender.backend.mark_as_revoked, request.id, reason, request=request, store_result=True))
