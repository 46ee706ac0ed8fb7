"""Threads that do what is short one after another, as one of them would, and what takes long beside one another.

The interpreter is one at a time: threads that take turns at short jobs, each of which lets go of it for a statement or
a file, spend more on their turns than on the jobs. So one thread does all, until a job holds it up; then the next goes
on. Where the jobs mostly wait, and the process has time, more go on beside it. Refuses to know what a job is, and to
have a timer: whoever puts jobs is told when somebody is to look.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

LONG: Final = 0.01
"""Seconds after which a job holds up the thread that it has, and from look to look while jobs wait."""
IDLE: Final = 0.25
"""The part of a processor that a process uses at the most, whose jobs wait for something else than the interpreter."""
BUSY: Final = 0.5
"""That from which on its threads are in each other's way."""

Job = Callable[[], object]
"""Raises nothing."""


class Pace:
    """How many threads are to be at work, by what the process used of a processor meanwhile. Pure: told the times."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used, self._at = 0.0, 0.0
        self.threads = 1

    def begin(self, used: float, now: float) -> None:
        """Jobs begin to wait. `used`: processor time of the process so far, `now`: the time, in seconds."""
        self._used, self._at = used, now

    def step(self, used: float, now: float) -> None:
        """They have waited since."""
        part = (used - self._used) / max(now - self._at, 1e-6)
        self.begin(used, now)
        if part < IDLE:
            self.threads = min(2 * self.threads, self._most)
        elif part > BUSY:
            self.threads = max(1, self.threads - 1)


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


class Relay:
    """A pool of at most `size` threads, started as they are needed, which no process waits for at its end."""

    def __init__(
        self, name: str, size: int, begin: Callable[[], object] = lambda: None, end: Callable[[], object] = lambda: None
    ) -> None:
        """Each thread calls `begin` before its first job, and `end` after its last."""
        self._name = name
        self._size = size
        self._begin, self._end = begin, end
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._threads: list[_Thread] = []
        self._resting: list[_Thread] = []
        self._at_work: set[_Thread] = set()
        """Those that are about to look at what waits: neither resting nor held up."""
        self._pace = Pace(size)
        self._is_looked_after = False
        self._is_closed = False

    @property
    def started(self) -> int:
        """How many threads there are."""
        return len(self._threads)

    def put(self, job: Job) -> bool:
        """Have a job done; whether `look` is to be called, `LONG` from now. Raises RuntimeError once closed."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError(f"the threads {self._name} are closed")
            self._jobs.append(job)
            if not self._at_work:
                self._call_one()
                return False
            return self._is_to_be_looked_after()

    def look(self) -> bool:
        """Call others where those at work are held up by their jobs; whether it is to be called again, as before."""
        with self._lock:
            if not self._jobs:
                self._is_looked_after = False
                return False
            long_ago = time.monotonic() - LONG
            for thread in [each for each in self._at_work if each.began_at < long_ago]:
                thread.is_held_up = True
                self._at_work.remove(thread)
            self._pace.step(time.process_time(), time.monotonic())
            for _ in range(min(self._pace.threads - len(self._at_work), len(self._jobs))):
                self._call_one()
            return True

    def forget(self) -> list[Job]:
        """Leave undone what no thread has begun, and tell what."""
        with self._lock:
            left = list(self._jobs)
            self._jobs.clear()
        return left

    def close(self) -> "list[Future[None]]":
        """Take no more, and have each thread end once nothing waits; what is done when each that runs has."""
        with self._lock:
            self._is_closed = True
            while self._resting:
                self._call_one()
            return [thread.ended for thread in self._threads if not thread.ended.done()]

    def _is_to_be_looked_after(self) -> bool:
        if self._is_looked_after:
            return False
        self._pace.begin(time.process_time(), time.monotonic())
        self._is_looked_after = True
        return True

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

    def _next(self, thread: _Thread) -> Job | None:
        """The job that waits for longest, once there is one; None: the thread is to end."""
        while True:
            with self._lock:
                if thread.is_held_up:
                    thread.is_held_up = False
                    self._at_work.add(thread)
                if self._jobs and (len(self._at_work) <= self._pace.threads or self._is_closed):
                    thread.began_at = time.monotonic()
                    return self._jobs.popleft()
                self._at_work.remove(thread)
                if self._is_closed:
                    return None
                self._resting.append(thread)
            thread.called.acquire()

    def _work(self, thread: _Thread) -> None:
        try:
            self._begin()
            while (job := self._next(thread)) is not None:
                job()
                del job  # what it holds is not kept until the next
            self._end()
        finally:
            with self._lock:
                self._at_work.discard(thread)
            thread.ended.set_result(None)
