"""Celery's threads pool with daemon threads, so that a tool that never ends does not keep the
process.

The ladder waits until nothing runs in the pool, or ends the process.
"""

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from celery import bootsteps
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadTaskPool

from mcp_app.celery_adapter import consumer
from mcp_app.celery_adapter.broker import RUN_TASK
from mcp_app.daemon_pool import DaemonThreadPool

NAME = "mcp_app.celery_adapter.thread_pool:DaemonThreadTaskPool"


class Bell:
    """A file descriptor that wakes an event loop. `ring` it from any thread."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._reading

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it is full, so the loop wakes anyway
            os.write(self._writing, b"!")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reading, 4096)


class DaemonThreadTaskPool(ThreadTaskPool):
    """Celery's threads pool, with daemon threads.

    The worker's event loop sleeps while its threads work. When a thread has finished a task,
    `slot_freed` wakes the loop, so that it fetches the next message.
    """

    executor: DaemonThreadPool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.executor = DaemonThreadPool("tool", self.limit)
        self.slot_freed = Bell()

    def apply_async(
        self, target: Callable[..., Any], args: Any = None, kwargs: dict[str, Any] | None = None, **options: Any
    ) -> ApplyResult:
        callback = options.pop("callback", None)

        def ended(result: Any) -> None:
            try:
                if callback is not None:
                    callback(result)
            finally:
                self.slot_freed.ring()

        return super().apply_async(target, args, kwargs, callback=ended, **options)

    def on_terminate(self) -> None:
        """Drop tasks that have not begun. At exit, Celery's executor would wait for its threads."""
        self.executor.shutdown(cancel_futures=True)
        super().on_terminate()

    @property
    def info(self) -> dict[str, Any]:
        """The pool's part of `celery inspect stats`.

        Celery's own version reads attributes of its executor.
        """
        kind = type(self)
        threads = {"max-concurrency": self.limit, "threads": self.executor.started}
        return {"implementation": f"{kind.__module__}:{kind.__name__}", **threads}


@dataclass(eq=False, slots=True)
class Job:
    """A task that Celery has given to its pool."""

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    callback: Callable[..., Any]
    accept_callback: Callable[[int, float], Any] | None
    done: "Future[None]" = field(default_factory=Future)
    """A future for Celery, which waits for it when the pool ends."""

    @property
    def task_id(self) -> str:
        """The task's id. For the run of a tool it is the id of the request."""
        return str(self.args[1])

    def accept(self) -> None:
        """Report to Celery that the task begins. Celery then acknowledges the message."""
        if self.accept_callback is not None:
            self.accept_callback(os.getpid(), time.monotonic())

    def run(self, members: Mapping[str, Any]) -> None:
        """Run the task in this thread, with `members` added to its request.

        Celery handles its result.
        """
        name, task_id, request, *message = self.args
        apply_target(self.target, (name, task_id, {**request, **members}, *message), self.kwargs, self.callback)


class JobPool(DaemonThreadTaskPool):
    """A threads pool whose subclass decides in `begin` how the run of a tool gets a thread."""

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
        self.begin(job)
        return ApplyResult(job.done)

    @abstractmethod
    def begin(self, job: Job) -> None:
        """Begin a run now or later, without blocking. Set `job.done` when it is over."""


class ThreadsPool:
    """Celery's threads pool, as the ladder uses it: a single process, the worker's own."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def pids(self) -> set[int]:
        return {os.getpid()}

    def holds_work(self) -> bool:
        return consumer.holds_work()

    @property
    def is_ending(self) -> bool:
        """Whether the worker must end, by a warm or a cold shutdown."""
        return consumer.is_told_to_stop() or self._worker.blueprint.state != bootsteps.RUN

    @property
    def is_ending_cold(self) -> bool:
        """Whether the worker must end without waiting for running calls."""
        return consumer.is_told_to_stop_cold()
