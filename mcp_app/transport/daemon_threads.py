"""A pool of threads for blocking work, which no process waits for at its end: daemons.

A thread cannot be stopped. `concurrent.futures` joins its threads when the interpreter exits, so that one that waits
for a database that answers nothing would keep a server process for ever. Refuses to wait for such a thread.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from django.db import connections

R = TypeVar("R")


class _Outcomes:
    """What threads have done for one event loop, which is woken once for all that came until it looks.

    Holds its loop by what is done alone: a loop that ended is not kept.
    """

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_woken = False

    def add(self, future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
        """From a thread."""
        self._done.append((future, result, error))
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                future.get_loop().call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self._is_woken = False  # before it looks: what comes after that wakes the loop again
        while self._done:
            future, result, error = self._done.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)


class _Job(NamedTuple):
    function: Callable[[], Any]
    future: "asyncio.Future[Any]"
    outcomes: _Outcomes

    def do(self) -> None:
        if self.future.cancelled():
            return
        try:
            result = self.function()
        except BaseException as error:
            self.outcomes.add(self.future, None, error)
        else:
            self.outcomes.add(self.future, result, None)


class DaemonThreads:
    """A pool of at most `size` threads, started as they are needed, each with its own database connections."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._idle: deque[None] = deque()
        """An entry for each thread that waits, and that no job was given to."""
        self._ended: list[Future[None]] = []
        self._outcomes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Outcomes] = WeakKeyDictionary()
        self._is_closed = False

    def start(self, function: Callable[[], R]) -> "asyncio.Future[R]":
        """Run `function` in a thread; the future of its result, on the running loop. Raises RuntimeError once closed.

        Cancelled before it began, it never begins.
        """
        if self._is_closed:
            raise RuntimeError(f"the threads {self._name} are closed")
        loop = asyncio.get_running_loop()
        if (outcomes := self._outcomes.get(loop)) is None:
            outcomes = self._outcomes[loop] = _Outcomes()
        future: asyncio.Future[R] = loop.create_future()
        self._jobs.put(_Job(function, future, outcomes))
        self._start_one_if_all_are_busy()
        return future

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
        if self._idle:
            with suppress(IndexError):  # another loop's job was quicker
                self._idle.pop()
                return
        if len(self._ended) >= self._size:
            return
        ended: Future[None] = Future()
        ended.set_running_or_notify_cancel()
        self._ended.append(ended)
        name = f"mcp-{self._name}-{len(self._ended)}"
        threading.Thread(target=self._work, args=(ended,), name=name, daemon=True).start()

    def _work(self, ended: Future[None]) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                job.do()
                del job  # what it holds is not kept until the next
                if self._jobs.empty():
                    self._idle.append(None)
            connections.close_all()
        finally:
            ended.set_result(None)
