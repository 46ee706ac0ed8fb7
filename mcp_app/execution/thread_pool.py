"""The threads pool: Celery's own, whose calls are a relay's jobs: short ones share a thread, long ones have their own.

Refuses to end a thread. Who ends the pool waits until nothing runs in it: the ladder sees to that, or ends the process.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from celery.concurrency.thread import ApplyResult
from celery.concurrency.thread import TaskPool as ThreadTaskPool

from mcp_app.execution import batches
from mcp_app.execution.messages import batch_broken
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK
from mcp_app.relay import LONG, Relay

P = ParamSpec("P")
R = TypeVar("R")

NAME = "mcp_app.execution.thread_pool:TaskPool"


@dataclass(eq=False, slots=True)
class _Work:
    """One function to be called, and what becomes of it."""

    function: Callable[[], Any]
    future: "Future[Any]" = field(default_factory=Future)

    def __call__(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.function()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class RelayExecutor(Executor):
    """A relay as `concurrent.futures` has its executors. A thread of its own looks after what waits."""

    def __init__(self, name: str, most: int, begin: Callable[[], object] = lambda: None) -> None:
        """Each of its threads, of which there are at most so many, calls `begin` before its first job."""
        self._relay = Relay(name, most, begin)
        self._is_due = threading.Event()
        self._looks: threading.Thread | None = None
        self._is_closed = False

    @property
    def started(self) -> int:
        """How many threads there are."""
        return self._relay.started

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        work = _Work(lambda: fn(*args, **kwargs))
        if self._relay.put(work):
            self._look_soon()
        return work.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for work in self._relay.forget():
                assert isinstance(work, _Work), "no other job is put"
                work.future.cancel()
        running = self._relay.close()
        self._is_closed = True
        self._is_due.set()
        if wait:
            futures.wait(running)

    def _look_soon(self) -> None:
        if self._looks is None:
            self._looks = threading.Thread(target=self._look, name="mcp-relay", daemon=True)
            self._looks.start()
        self._is_due.set()

    def _look(self) -> None:
        while not self._is_closed:
            self._is_due.wait()
            self._is_due.clear()
            time.sleep(LONG)
            while self._relay.look():
                time.sleep(LONG)


class TaskPool(ThreadTaskPool):  # type: ignore[misc] # Celery ships no types
    """Celery's, with a relay for its threads."""

    executor: RelayExecutor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.executor = RelayExecutor("tool", self.limit)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: dict[str, Any] | None = None,
        callback: Any = None,
        accept_callback: Any = None,
        **options: Any,
    ) -> ApplyResult:
        if not args or args[0] != RUN_BATCH_TASK:
            return super().on_apply(target, args, kwargs, callback, accept_callback, **options)
        parts = list(batches.each_of(args))
        whole = Whole([request_id for _, request_id, *_ in parts], callback, accept_callback)
        for part in parts:
            whole.add(self.on_apply(target, part, kwargs, _unheard, whole.accept, **options).f)
        whole.is_complete()
        return ApplyResult(whole.done)

    def on_terminate(self) -> None:
        """These threads do not keep their process, as those of `concurrent.futures` do."""
        self.executor.shutdown(cancel_futures=True)
        super().on_terminate()

    def _get_info(self) -> dict[str, Any]:
        told: dict[str, Any] = super(ThreadTaskPool, self)._get_info()
        return {**told, "max-concurrency": self.limit, "threads": self.executor.started}


class Whole:
    """A batch that was taken apart: begun with the first of its calls, and over with the last.

    Celery is told that it has succeeded, whatever became of each; what was dropped is for others to run.
    """

    def __init__(
        self,
        request_ids: Sequence[str],
        callback: Callable[[Any], object],
        accept: Callable[[int, float], object],
    ) -> None:
        """`callback`, `accept`: Celery's, of the task that came."""
        self.done: Future[None] = Future()
        self._request_ids = request_ids
        self._callback = callback
        self._accept = accept
        self._lock = threading.Lock()
        self._left = 1
        self._is_accepted = False
        self._is_broken = False

    def add(self, part: "Future[Any]") -> None:
        """One of its calls."""
        with self._lock:
            self._left += 1
        part.add_done_callback(lambda part: self._count(is_dropped=part.cancelled()))

    def is_complete(self) -> None:
        """No other is added."""
        self._count()

    def accept(self, pid: int, at: float) -> None:
        """One of them begins."""
        with self._lock:
            was_accepted, self._is_accepted = self._is_accepted, True
        if not was_accepted:
            self._accept(pid, at)

    def _count(self, *, is_dropped: bool = False) -> None:
        with self._lock:
            self._left -= 1
            is_last = not self._left
            self._is_broken = self._is_broken or is_dropped
        if not is_last:
            return
        if self._is_accepted:  # else the broker still has it
            if self._is_broken:
                batch_broken.send(sender=self, request_ids=self._request_ids)
            self._callback((0, repr(None), 0.0))
        self.done.set_result(None)


def _unheard(result: Any) -> None:
    """Of one of a batch Celery waits for nothing."""
