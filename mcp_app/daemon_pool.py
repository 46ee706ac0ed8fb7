"""A pool of daemon threads.

`ThreadPoolExecutor` joins its threads when the interpreter exits. One thread that waits for a
database that does not answer would keep its process alive for ever.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def _nothing() -> None:
    pass


class DaemonThreadPool(Executor):
    """An executor of at most `size` daemon threads, which are started when they are needed.

    Each thread calls `initializer` before its first job and `finalizer` after its last.
    """

    def __init__(
        self,
        name: str,
        size: int,
        initializer: Callable[[], object] = _nothing,
        finalizer: Callable[[], object] = _nothing,
    ) -> None:
        self._name = name
        self._size = size
        self._initializer = initializer
        self._finalizer = finalizer
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle = 0
        self._ended: list[Future[None]] = []
        self._is_closed = False

    @property
    def started(self) -> int:
        """The number of threads that were started."""
        return len(self._ended)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Call `fn` in a thread. Raises RuntimeError after `shutdown`."""
        future: Future[R] = Future()
        with self._changed:
            if self._is_closed:
                raise RuntimeError(f"the thread pool {self._name} is closed")
            self._jobs.append((future, lambda: fn(*args, **kwargs)))
            if len(self._jobs) > self._idle and self.started < self._size:
                self._start_thread()
            else:
                self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more jobs, and end each thread once none waits."""
        with self._changed:
            self._is_closed = True
            cancelled = list(self._jobs) if cancel_futures else []
            if cancel_futures:
                self._jobs.clear()
            self._changed.notify_all()
        for future, _ in cancelled:
            future.cancel()
        if wait:
            futures.wait(self._ended)

    def running(self) -> "list[Future[None]]":
        """Return a future for each thread that has not ended."""
        return [ended for ended in self._ended if not ended.done()]

    def _start_thread(self) -> None:
        ended: Future[None] = Future()
        ended.set_running_or_notify_cancel()  # a running future cannot be cancelled by its waiters
        self._ended.append(ended)
        name = f"mcp-{self._name}-{self.started}"
        threading.Thread(target=self._work, args=(ended,), name=name, daemon=True).start()

    def _work(self, ended: "Future[None]") -> None:
        try:
            self._initializer()
            while (job := self._next()) is not None:
                _run(*job)
                del job  # free its arguments before waiting for the next job
            self._finalizer()
        finally:
            ended.set_result(None)

    def _next(self) -> "tuple[Future[Any], Callable[[], Any]] | None":
        with self._changed:
            self._idle += 1
            try:
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                return self._jobs.popleft() if self._jobs else None
            finally:
                self._idle -= 1


def _run(future: "Future[Any]", function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
