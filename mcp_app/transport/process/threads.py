"""Runs the blocking work of an event loop in bounded pools of daemon threads.

Theory of operation
-------------------

All `sync_to_async` calls of a process share one thread, so one slow query would delay every
request. A server process has several `Threads` pools instead, one for each kind of work.

1. Each thread has its own database connections. Before a job starts, connections that have failed
   are closed.
2. A job is never interrupted. If its caller is cancelled, it still runs to its end. If the
   `patience` of its caller expires, a job that is still queued is dropped.
3. A thread that hangs does not keep the process alive.

Many requests that arrive at the same time can share a job:

    call ──┐                                          read ──┐
    call ──┼─> GroupCommit ──> one transaction        read ──┼─> SingleFlight ──> one query
    call ──┘   (an outcome for each)                  read ──┘   (the same result for all)

4. `GroupCommit` passes the items of one turn of the event loop to one job. While jobs run, it
   collects items for `LONG_JOB_SECONDS`, or until a job ends.
5. `SingleFlight` never returns a value that was read before the caller asked. While a read runs,
   later callers share the next one.
"""

import asyncio
import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from django.db import OperationalError, connections

from mcp_app import databases
from mcp_app.daemon_pool import DaemonThreadPool

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")

Do = Callable[[Sequence[T]], Sequence[R | Exception]]
"""Handles several items and returns an outcome for each. What it raises is the outcome of all of
them."""
Start = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
"""Runs a function in a thread."""

MAX_ITEMS: Final = 50
"""Items of one job. Other writers wait for its whole transaction."""
LONG_JOB_SECONDS: Final = 0.05
RETRY_SECONDS = 1.0
ENDING_SECONDS: Final = 4.0
"""How long jobs may still run when the process ends. Must be less than `server.ENDING_SECONDS`."""


class GroupCommit(Generic[T, R]):
    """Passes items to jobs, of which at most `max_jobs` run at once.

    All methods are called on one event loop.
    """

    def __init__(self, start: Start, do: Do[T, R], max_jobs: int, max_items: int = MAX_ITEMS) -> None:
        self._start = start
        self._do = do
        self._max_jobs = max_jobs
        self._max_items = max_items
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._jobs = 0
        self._next: asyncio.Handle | None = None

    def put(self, item: T) -> "asyncio.Future[R]":
        """Add an item and return the future of its outcome.

        Cancelling the future drops an item whose job has not begun.
        """
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        self._plan()
        return done

    def _plan(self) -> None:
        """Schedule the next job.

        If none runs, it begins after this turn of the loop, so that its items share a job.
        """
        if self._next is not None or not self._waiting:
            return
        loop = asyncio.get_running_loop()
        if not self._jobs:
            self._next = loop.call_soon(self._begin)
        elif self._jobs < self._max_jobs:
            self._next = loop.call_later(LONG_JOB_SECONDS, self._begin)

    def _begin(self) -> None:
        self._next = None
        batch: list[tuple[T, asyncio.Future[R]]] = []
        while self._waiting and len(batch) < self._max_items:
            item, done = self._waiting.popleft()
            if not done.done():
                batch.append((item, done))
        if batch:
            futures = [done for _, done in batch]
            self._jobs += 1
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
            self._next = asyncio.get_running_loop().call_soon(self._begin)


class SilentDatabaseError(OperationalError):
    """The database did not answer in time. The statement may still be executed."""

    def __init__(self) -> None:
        super().__init__("the database does not answer")


class _Undoable(Generic[R]):
    """A job that is undone in its thread if it ends after its caller has given up."""

    def __init__(self, job: Callable[[], R], undo: Callable[[], object]) -> None:
        self._job = job
        self._undo = undo
        self._lock = threading.Lock()
        self._is_done = False
        self._is_disowned = False

    def __call__(self) -> R:
        made = self._job()
        with self._lock:
            self._is_done = True
            is_disowned = self._is_disowned
        if is_disowned:
            self._undo()
        return made

    def disown(self) -> bool:
        """Give up on the job.

        Returns whether it was already done, in which case the caller must undo it.
        """
        with self._lock:
            self._is_disowned = True
            return self._is_done


class Threads:
    """A pool of at most `size` threads.

    If `patience` is given, callers wait for a job for at most that many seconds.
    """

    def __init__(self, name: str, size: int, *, patience: float | None = None) -> None:
        self._name = name
        self._size = size
        self._patience = patience
        self._pool = DaemonThreadPool(name, size, finalizer=connections.close_all)
        self._group_commits: dict[Do[Any, Any], GroupCommit[Any, Any]] = {}

    def start(self, function: Callable[..., R], *args: Any) -> "asyncio.Future[R]":
        """Run `function` in a thread and return the future of its result.

        Cancelling the future drops a job that has not begun. Raises `RuntimeError` after `close`.
        """
        return asyncio.get_running_loop().run_in_executor(self._pool, on_usable_connections, function, args)

    def start_together(self, do: Do[T, R], item: T) -> "asyncio.Future[R]":
        """Call `do` with this item and those that arrive at the same time.

        Returns the future of the item's outcome.

        Cancelling the future drops an item whose job has not begun.
        """
        if (group_commit := self._group_commits.get(do)) is None:
            group_commit = self._group_commits[do] = GroupCommit(self.start, do, self._size)
        return group_commit.put(item)

    async def run(self, function: Callable[..., R], *args: Any, within: float | None = None) -> R:
        """Run `function` in a thread and return its result.

        If cancelled, the job still runs to its end.

        Raises `SilentDatabaseError` after `patience`, or after `within` seconds if that is given. A
        job that is still queued then is dropped, so that the queue does not grow while all threads
        wait.
        """
        job = self.start(function, *args)
        limit = asyncio.timeout(self._patience if within is None else within)
        try:
            async with limit:
                return await asyncio.shield(job)
        except TimeoutError as error:
            if not limit.expired():
                raise
            job.cancel()
            raise SilentDatabaseError from error

    async def insist(self, function: Callable[..., R], *args: Any, seconds: float = math.inf) -> R:
        """Do as `run`, but retry for `seconds` while the database is away.

        Use it for work that must not be lost.
        """
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                return await self.run(function, *args)
            except databases.AWAY as error:
                if time.monotonic() > give_up_at:
                    raise
                logger.error("the database cannot be reached, trying again: %s", str(error).strip())
                await asyncio.sleep(RETRY_SECONDS)

    async def run_or_undo(self, function: Callable[[], R], undo: Callable[[], object]) -> R:
        """Do as `run`.

        If the caller gives up, run `undo` in a thread as soon as the job is done.
        """
        job = _Undoable(function, undo)
        try:
            return await self.run(job)
        except BaseException:
            if job.disown():
                self.start(undo)
            raise

    async def close(self, seconds: float = ENDING_SECONDS) -> int:
        """End the threads and their database connections once queued jobs have run.

        Returns how many threads have not ended within `seconds`; they end with the process.
        """
        give_up_at = time.monotonic() + seconds
        self._pool.shutdown(wait=False)
        while running := self._pool.running():
            if (left := give_up_at - time.monotonic()) <= 0:
                logger.error("%d %s threads are still running and end with the process", len(running), self._name)
                break
            _, waiting = await asyncio.wait([asyncio.wrap_future(each) for each in running], timeout=left)
            for each in waiting:
                each.cancel()  # otherwise the thread would call into a closed loop when it ends
        return len(running)


def on_usable_connections(function: Callable[..., R], args: tuple[Any, ...]) -> R:
    """Call `function` in this thread, after closing database connections that have failed."""
    for connection in connections.all(initialized_only=True):
        # These threads live as long as the process: a CONN_MAX_AGE meant for web requests would
        # reconnect at every job.
        connection.close_at = None
        connection.close_if_unusable_or_obsolete()
    try:
        return function(*args)
    except StopIteration as error:  # the one exception that asyncio's futures do not accept
        raise RuntimeError(repr(error)) from error


class SingleFlight(Generic[R]):
    """Runs `read` in a thread. All methods are called on one event loop."""

    def __init__(self, threads: Threads, read: Callable[[], R]) -> None:
        self._threads = threads
        self._read = read
        self._running: asyncio.Task[R] | None = None
        self._following: asyncio.Task[R] | None = None

    async def get(self) -> R:
        """Return the result of a read that begins after this call. Raises what `read` raises."""
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(
                self._after(self._running), name="mcp-single-flight"
            )
        # Shielded, because others wait for it as well.
        return await asyncio.shield(self._following)

    async def _after(self, before: asyncio.Task[R] | None) -> R:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._following = self._following, None
        return await self._threads.run(self._read)


class KeyedSingleFlight(Generic[K, R]):
    """A `SingleFlight` for each key that a caller is waiting for."""

    def __init__(self, threads: Threads, read: Callable[[K], R]) -> None:
        self._threads = threads
        self._read = read
        self._flights: dict[K, SingleFlight[R]] = {}
        self._waiting: Counter[K] = Counter()

    async def get(self, key: K) -> R:
        """Return what `SingleFlight.get` returns for `key`."""
        if (flight := self._flights.get(key)) is None:
            flight = self._flights[key] = SingleFlight(self._threads, partial(self._read, key))
        self._waiting[key] += 1
        try:
            return await flight.get()
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._flights[key]
