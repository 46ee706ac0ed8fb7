"""A pool of threads for blocking work, which no process waits for at its end: daemons.

A thread cannot be stopped. `concurrent.futures` joins its threads when the interpreter exits, so that one that waits
for a database that answers nothing would keep a server process for ever. Refuses to wait for such a thread.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from django.db import connections

R = TypeVar("R")


class DaemonThreads:
    """A pool of at most `size` threads, started as they are needed, each with its own database connections."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._ended: list[Future[None]] = []
        self._is_closed = False

    def start(self, function: Callable[[], R]) -> "asyncio.Future[R]":
        """Run `function` in a thread; the future of its result, on the running loop. Raises RuntimeError once closed.

        Cancelled before it began, it never begins.
        """
        if self._is_closed:
            raise RuntimeError(f"the threads {self._name} are closed")
        job: Future[R] = Future()
        self._jobs.put((job, function))
        self._start_one_if_all_are_busy()
        return asyncio.wrap_future(job)

    async def close(self, seconds: float) -> int:
        """End the threads and their database connections, once what is queued has run; how many have not in time."""
        self._is_closed = True
        for _ in self._ended:
            self._jobs.put(None)
        if not self._ended:
            return 0
        _, running = await asyncio.wait(map(asyncio.wrap_future, self._ended), timeout=seconds)
        for waiting in running:
            waiting.cancel()  # or its thread's end would call into a loop that is closed
        return len(running)

    def _start_one_if_all_are_busy(self) -> None:
        if self._idle.acquire(blocking=False) or len(self._ended) >= self._size:
            return
        ended: Future[None] = Future()
        ended.set_running_or_notify_cancel()
        self._ended.append(ended)
        name = f"mcp-{self._name}-{len(self._ended)}"
        threading.Thread(target=self._work, args=(ended,), name=name, daemon=True).start()

    def _work(self, ended: Future[None]) -> None:
        try:
            while (taken := self._jobs.get()) is not None:
                _do(*taken)
                del taken  # what it holds is not kept until the next
                if self._jobs.empty():
                    self._idle.release()
            connections.close_all()
        finally:
            ended.set_result(None)


def _do(job: Future[Any], function: Callable[[], Any]) -> None:
    if not job.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        job.set_exception(error)
    else:
        job.set_result(result)
