"""The async pool: the threads pool, and beside it one event loop in which the calls of `async` tools wait together.

Such a call holds no thread: a few, the desk's, claim its row and write its end, and Celery's task is run then. What
blocks has a thread of its own, as in the threads pool; at most as many calls run, of either kind, as the pool has
slots. Refuses to know what a call does.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

from celery import Task
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult

from mcp_app.execution import child, runner
from mcp_app.execution.connections import ToolConnections
from mcp_app.execution.coroutine_calls import CoroutineCall, shares_the_loop
from mcp_app.execution.runner import Rest
from mcp_app.execution.shared_loop import SharedLoop
from mcp_app.execution.thread_pool import RelayExecutor
from mcp_app.execution.thread_pool import TaskPool as ThreadTaskPool
from mcp_app.lifecycle.publishing import RUN_TASK

logger = logging.getLogger(__name__)

NAME = "mcp_app.execution.async_pool:TaskPool"
DESK_THREADS = 8
"""How many calls are claimed, or have their ends written, at a time."""
_at_desk = threading.local()


def is_at_desk() -> bool:
    """Whether this thread keeps its connections from call to call: there are few of them."""
    return getattr(_at_desk, "yes", False)


@dataclass(eq=False, slots=True)
class Job:
    """One message's task, as Celery wants it run."""

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    callback: Callable[..., Any]
    accept: Callable[[int, float], Any] | None
    done: "Future[None]" = field(default_factory=Future)


class TaskPool(ThreadTaskPool):
    """The threads pool, with a way for coroutines past its threads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loop = SharedLoop()
        self._desk = RelayExecutor("desk", min(DESK_THREADS, self.limit), partial(setattr, _at_desk, "yes", True))
        self._changed = threading.Condition()
        self._held = 0
        self._waiting: deque[Job] = deque()
        self._ending = False

    def on_start(self) -> None:
        super().on_start()
        self.loop.start()

    def on_stop(self) -> None:
        self._await_calls()
        self._desk.shutdown()
        super().on_stop()

    def on_terminate(self) -> None:
        """Its threads keep a process until they have ended; what is in the loop has none, so it is waited for here."""
        self._await_calls()
        super().on_terminate()

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: dict[str, Any] | None = None,
        callback: Any = None,
        accept_callback: Any = None,
        **options: Any,
    ) -> ApplyResult:
        if not args or args[0] != RUN_TASK:
            return super().on_apply(target, args, kwargs, callback, accept_callback, **options)
        job = Job(target, args, kwargs or {}, callback, accept_callback)
        with self._changed:
            if self._held >= self.limit:
                self._waiting.append(job)
                return ApplyResult(job.done)
            self._held += 1
        self._desk.submit(self._begin, job)
        return ApplyResult(job.done)

    def _begin(self, job: Job) -> None:
        """At the desk. From here on the message is taken."""
        if job.accept is not None:
            try:
                job.accept(os.getpid(), time.monotonic())
            except BaseException as error:
                self._over(job, error)
                return
        try:
            ToolConnections().freshen()
            here = child.current()
            row = runner.claim(here, UUID(job.args[1]))
        except BaseException as error:
            self._run(job, partial(_raise, error))
            return
        if not shares_the_loop(row):
            self.executor.submit(self._run, job, partial(runner.serve_claimed, here, row))
            return
        try:
            CoroutineCall(here, row, self.loop, lambda rest: self._desk.submit(self._run, job, rest)).begin()
        except BaseException as error:
            here.claimed.discard(row.pk)  # nobody runs it: the ladder finds it lost
            self._run(job, partial(_raise, error))

    def _run(self, job: Job, rest: Rest) -> None:
        """In a thread: Celery's task, which does what is left."""
        try:
            copy_context().run(_trace, job, rest)
        except BaseException as error:
            self._over(job, error)
        else:
            self._over(job, None)

    def _over(self, job: Job, error: BaseException | None) -> None:
        with self._changed:
            following = self._waiting.popleft() if self._waiting else None
            if following is None:
                self._held -= 1
                self._changed.notify_all()
        if following is not None:
            self._desk.submit(self._begin, following)
        if error is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(error)

    def _await_calls(self) -> None:
        """Until none runs: the ladder sees to that, or ends the process."""
        with self._changed:
            # Not accepted, so the broker gives them to others; or one of a batch, which has to know.
            dropped = list(self._waiting)
            self._waiting.clear()
        for job in dropped:
            job.done.cancel()
        with self._changed:
            self._changed.wait_for(lambda: not self._held)


def _trace(job: Job, rest: Rest) -> None:
    runner.begun.set(rest)
    apply_target(job.target, job.args, job.kwargs, job.callback)


def _raise(error: BaseException, task: Task) -> NoReturn:
    raise error
