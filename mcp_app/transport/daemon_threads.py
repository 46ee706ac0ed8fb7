"""A pool of threads for blocking work, which no process waits for at its end: daemons.

A thread cannot be stopped. `concurrent.futures` joins its threads when the interpreter exits, so that one that waits
for a database that answers nothing would keep a server process for ever. Refuses to wait for such a thread.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

from django.db import connections

R = TypeVar("R")

LONG: Final = 0.01
"""Seconds after which a job holds up the thread that it has."""


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
            try:
                future.get_loop().call_soon_threadsafe(self._settle)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self._done.clear()

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


class _Thread:
    """One of a pool. `began_at`: its job, in seconds of the monotonic clock; `is_held_up`: that takes long."""

    def __init__(self) -> None:
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()
        self.called = threading.Lock()
        """Held by its thread, and let go of by whoever calls it from its rest: no semaphore costs as little."""
        self.called.acquire()
        self.began_at = time.monotonic()
        self.is_held_up = False


class DaemonThreads:
    """A pool of at most `size` threads, started as they are needed, each with its own database connections.

    One of them does all jobs, one after another, until one takes longer than `LONG`: then the next thread goes on with
    the rest. Short jobs cost more in several threads than in one, as those wait for the interpreter in turns.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._threads: list[_Thread] = []
        self._resting: list[_Thread] = []
        self._at_work: set[_Thread] = set()
        """Those that are about to look at what waits: neither resting nor held up."""
        self._relief: ReferenceType[asyncio.AbstractEventLoop] | None = None
        """The loop that is to look whether those at work are held up."""
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
        with self._lock:
            is_seen_to = bool(self._at_work)
            if not is_seen_to:
                self._call_one()  # which waits for the lock before it looks
            self._jobs.append(_Job(function, future, outcomes))
        if is_seen_to:
            self._relieve_soon(loop)
        return future

    async def close(self, seconds: float) -> int:
        """End the threads and their database connections, once what is queued has run; how many have not in time."""
        with self._lock:
            self._is_closed = True
            while self._resting:
                self._call_one()
        give_up_at = time.monotonic() + seconds
        while running := [thread.ended for thread in list(self._threads) if not thread.ended.done()]:
            if (left := give_up_at - time.monotonic()) <= 0:
                break
            _, waiting = await asyncio.wait([asyncio.wrap_future(each) for each in running], timeout=left)
            for each in waiting:
                each.cancel()  # or its thread's end would call into a loop that is closed
        return len(running)

    def _call_one(self) -> None:
        """Have one more look at what waits, the one that rested last: what it needs is still in the caches."""
        if self._resting:
            thread = self._resting.pop()
            self._at_work.add(thread)
            thread.called.release()
        elif len(self._threads) < self._size:
            thread = _Thread()
            name = f"mcp-{self._name}-{len(self._threads) + 1}"
            threading.Thread(target=self._work, args=(thread,), name=name, daemon=True).start()
            self._threads.append(thread)
            self._at_work.add(thread)

    def _relieve_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._relief is None or self._relief() is not loop:
            self._relief = ref(loop)
            loop.call_later(LONG, self._relieve, loop)

    def _relieve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call another thread where those at work are held up by their jobs while others wait."""
        self._relief = None
        with self._lock:
            if not self._jobs:
                return
            long_ago = time.monotonic() - LONG
            for thread in [each for each in self._at_work if each.began_at < long_ago]:
                thread.is_held_up = True
                self._at_work.remove(thread)
            if not self._at_work:
                self._call_one()
        self._relieve_soon(loop)

    def _next(self, thread: _Thread) -> _Job | None:
        """The job that waits for longest, once there is one; None: the thread is to end."""
        while True:
            with self._lock:
                if thread.is_held_up:
                    thread.is_held_up = False
                    self._at_work.add(thread)
                if self._jobs:
                    thread.began_at = time.monotonic()
                    return self._jobs.popleft()
                if self._is_closed:
                    return None
                self._at_work.remove(thread)
                self._resting.append(thread)
            thread.called.acquire()

    def _work(self, thread: _Thread) -> None:
        try:
            while (job := self._next(thread)) is not None:
                job.do()
                del job  # what it holds is not kept until the next
            connections.close_all()
        finally:
            with self._lock:
                self._at_work.discard(thread)
            thread.ended.set_result(None)
