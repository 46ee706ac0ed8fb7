"""What many requests want done at one moment, done by one job in a thread: a group commit for an event loop.

While a job runs, what comes is gathered for the next; whoever comes alone waits for nobody. In a crowd jobs begin as
far apart as a call takes, so that more share each, or as soon as half of the crowd is there: the others are being
served, and come when they are answered. A job that takes long holds nobody up for longer than `LONG`: the next is begun
beside it. Refuses to share a failure: each has its own outcome.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Do = Callable[[Sequence[T]], Sequence[R | Exception]]
"""Gives for each of several what became of it, or its exception; what it raises is everybody's."""
Start = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
"""Runs a function in a thread."""

MOST: Final = 50
"""Done together: a transaction that holds up no other writer for long."""
CROWD: Final = 8
"""Calls that a process has open, from which on they do not come alone: one that comes waits for company."""
APART: Final = 0.03
"""Seconds from job to job in a crowd, at most."""
WEIGHT: Final = 0.05
"""Of the newest answer in the average of how long they take."""
LONG: Final = 0.05
"""Seconds after which a job is not waited for."""


class Company(NamedTuple):
    """What one that comes is kept waiting for."""

    apart: float = 0.0
    """Seconds since the last job began."""
    enough: float = 0.0
    """So many that wait are not kept waiting."""


NOBODY: Final = Company()


class Crowd:
    """How long the calls of a process keep one another waiting: for as long as they have taken of late, since within
    that time whoever was answered has come back.

    Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._apart = APART

    def answered(self, seconds: float) -> None:
        """A call has its answer, so many seconds after it came."""
        self._apart += WEIGHT * (min(seconds, APART) - self._apart)

    def company(self, count: int) -> Company:
        """What one that comes is kept waiting for, where so many are open."""
        return Company(self._apart, min(count / 2, MOST)) if count >= CROWD else NOBODY


class Gathered(Generic[T, R]):
    """Belongs to one event loop. Of its jobs at most `beside` run at once."""

    def __init__(self, start: Start, do: Do[T, R], beside: int) -> None:
        self._start = start
        self._do = do
        self._beside = beside
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._jobs = 0
        self._next: asyncio.Handle | None = None
        self._began_at = -math.inf
        self._is_soon = False
        """Whether the next job begins as soon as this turn of the loop is over."""
        self._company = NOBODY

    def put(self, item: T, company: Company = NOBODY) -> "asyncio.Future[R]":
        """What becomes of it. Cancelled before its job began, it is left out."""
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        self._company = company
        if self._next is not None and not self._jobs and not self._is_soon and self._is_due():
            self._next.cancel()
            self._next = self._in_its_time()
        else:
            self._plan()
        return done

    def _plan(self) -> None:
        """Have the next job begin: where none runs soon, as what comes at this moment is about to be put here, too."""
        if self._next is not None or not self._waiting:
            return
        if not self._jobs:
            self._next = self._in_its_time()
        elif self._jobs < self._beside:
            self._next = asyncio.get_running_loop().call_later(LONG, self._begin)

    def _in_its_time(self) -> asyncio.Handle:
        """Have a job begin that nothing keeps waiting but company."""
        loop = asyncio.get_running_loop()
        self._is_soon = self._is_due()
        return loop.call_soon(self._begin) if self._is_soon else loop.call_at(self._due_at, self._begin)

    def _is_due(self) -> bool:
        is_enough = len(self._waiting) >= self._company.enough
        return is_enough or self._due_at <= asyncio.get_running_loop().time()

    @property
    def _due_at(self) -> float:
        return self._began_at + self._company.apart

    def _begin(self) -> None:
        self._next, self._is_soon = None, False
        batch: list[tuple[T, asyncio.Future[R]]] = []
        while self._waiting and len(batch) < MOST:
            item, done = self._waiting.popleft()
            if not done.done():
                batch.append((item, done))
        if batch:
            futures = [done for _, done in batch]
            self._jobs += 1
            self._began_at = asyncio.get_running_loop().time()
            try:
                job = self._start(partial(self._do, [item for item, _ in batch]))
            except Exception as error:
                self._end(futures, [error] * len(futures))
            else:
                job.add_done_callback(partial(self._settle, futures))
        self._plan()

    def _settle(self, futures: "Sequence[asyncio.Future[R]]", job: "asyncio.Future[Sequence[R | Exception]]") -> None:
        error = job.exception()
        self._end(futures, job.result() if error is None else [error] * len(futures))

    def _end(self, futures: "Sequence[asyncio.Future[R]]", outcomes: Sequence[R | BaseException]) -> None:
        self._jobs -= 1
        for done, outcome in zip(futures, outcomes, strict=True):
            if done.done():
                continue
            if isinstance(outcome, BaseException):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)
        if self._waiting:
            if self._next is not None:
                self._next.cancel()
            self._next = self._in_its_time()
