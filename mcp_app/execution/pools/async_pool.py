"""The async pool: a threads pool with an event loop in which the calls of `async` tools wait
together.

A call of an `async` tool occupies no thread while it waits. It takes three steps:

    desk threads    accept the message, claim the row               (a few threads)
    shared loop     run the coroutine                               (one thread)
    desk threads    run Celery's task, which writes the ending

Other tools are claimed in the same way, and then run in threads of the executor, as in the threads
pool. Calls of both kinds count against the pool's slots.

`AsyncLadder` adds a step to `ThreadsLadder`: it closes a coroutine that waits. A coroutine that
holds the loop cannot be ended, and neither can any other call in the loop until it lets go. The
worker's heartbeat does not depend on the loop, so such a worker does not count as dead.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

from mcp_app.celery_adapter.thread_pool import Job, JobPool, ThreadsPool
from mcp_app.daemon_pool import DaemonThreadPool
from mcp_app.execution.pools.coroutine_calls import CoroutineCall, shares_the_loop
from mcp_app.execution.pools.shared_loop import SharedLoop
from mcp_app.execution.pools.threads import AFTER_KILL_SECONDS, ThreadsLadder
from mcp_app.execution.process import child
from mcp_app.execution.process.child import Child
from mcp_app.execution.process.slots import ToolConnections
from mcp_app.execution.run import runner
from mcp_app.execution.run.runner import Finished
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.models import Request

logger = logging.getLogger(__name__)

NAME = "mcp_app.execution.pools.async_pool:AsyncTaskPool"
DESK_THREADS = 8
"""How many calls are claimed, or have their endings written, at a time."""
CHECK_LOOP_SECONDS = 0.5
_thread = threading.local()


def keeps_connections() -> bool:
    """Return whether this thread keeps its connections between calls."""
    return getattr(_thread, "is_desk", False)


class AsyncTaskPool(JobPool):
    """A pool of threads with an event loop for coroutines."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loop = SharedLoop()
        self._desk = DaemonThreadPool("desk", min(DESK_THREADS, self.limit), partial(setattr, _thread, "is_desk", True))
        self._changed = threading.Condition()
        self._open_calls = 0
        self._waiting: deque[Job] = deque()

    def on_start(self) -> None:
        super().on_start()
        self.loop.start()

    def on_stop(self) -> None:
        self._await_calls()
        self._desk.shutdown()
        super().on_stop()

    def on_terminate(self) -> None:
        """Drop the waiting jobs, and wait for all open calls, in the loop and in threads."""
        self._await_calls()
        super().on_terminate()

    def begin(self, job: Job) -> None:
        with self._changed:
            if self._open_calls >= self.limit:
                self._waiting.append(job)
                return
            self._open_calls += 1
        self._desk.submit(self._begin, job)

    def _begin(self, job: Job) -> None:
        """Accept the message, claim the request, and start its call. Runs in a desk thread."""
        try:
            job.accept()
        except BaseException as error:
            self._end(job, error)
            return
        # The message is accepted. From here on Celery's task raises any error, so that Celery reports it.
        try:
            ToolConnections().freshen()
            here = child.current()
            row = runner.claim(here, UUID(job.task_id))
        except BaseException as error:
            self._run(job, partial(_raise, error))
            return
        if not shares_the_loop(row):
            self.executor.submit(self._run, job, partial(runner.run_claimed, here, row))
            return
        try:
            CoroutineCall(here, row, self.loop, lambda rest: self._desk.submit(self._run, job, rest)).begin()
        except BaseException as error:
            here.claimed.discard(
                row.pk
            )  # a claimed row that is not in `claimed` has no run, so the ladder closes it as lost
            self._run(job, partial(_raise, error))

    def _run(self, job: Job, rest: Callable[[], Finished]) -> None:
        """Run Celery's task in this thread. It calls `rest` for everything after the claim."""
        try:
            job.run({runner.REST: rest})
        except BaseException as error:
            self._end(job, error)
        else:
            self._end(job, None)

    def _end(self, job: Job, error: BaseException | None) -> None:
        with self._changed:
            following = self._waiting.popleft() if self._waiting else None
            if following is None:
                self._open_calls -= 1
                self._changed.notify_all()
        if following is not None:
            self._desk.submit(self._begin, following)
        if error is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(error)

    def _await_calls(self) -> None:
        """Drop the waiting jobs, then wait until no call is open.

        The wait ends, because the ladder ends each call or the process.
        """
        with self._changed:
            # Their messages were not accepted, so the broker delivers them to other workers.
            dropped = list(self._waiting)
            self._waiting.clear()
        for job in dropped:
            job.done.cancel()
        with self._changed:
            self._changed.wait_for(lambda: not self._open_calls)


def _raise(error: BaseException) -> NoReturn:
    raise error


class AsyncLadder(ThreadsLadder):
    """The ladder of a worker whose `async` tools share a loop."""

    pool_name = "async"

    def __init__(self, identity: Identity, pool: ThreadsPool, child: Child, loop: SharedLoop) -> None:
        super().__init__(identity, pool, child)
        self._loop = loop

    def start(self) -> None:
        self.every(CHECK_LOOP_SECONDS, self._loop.check_is_held)
        super().start()

    def _take_last_step(self, row: Request) -> None:
        running = self._child.watcher.running().get(row.pk)
        abandon = None if running is None else running.abandon
        if abandon is None:
            super()._take_last_step(row)
            return
        abandon()
        self._timers.after(AFTER_KILL_SECONDS, partial(super()._take_last_step, row))
