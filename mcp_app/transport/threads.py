"""Threads for blocking work: bounded pools, off the one thread that every `sync_to_async` call queues on.

Each job starts on a usable database connection. Refuses to interrupt: a job whose caller was cancelled runs to its end.
"""

import asyncio
import logging
import math
import select
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from django.db import OperationalError, connections

from mcp_app import databases
from mcp_app.transport.daemon_threads import DaemonThreads
from mcp_app.transport.gathered import NOBODY, Company, Do, Gathered

logger = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

ASK_AGAIN_SECONDS = 5.0
"""How long a connection that was found to be there is used without asking it again."""
RETRY_SECONDS = 1.0
ENDING_SECONDS = 4.0
"""What jobs that still run are given when the process ends: less than the server gives its parts."""


class SilentDatabaseError(OperationalError):
    """The database did not answer in time; what it was asked may still be done."""

    def __init__(self) -> None:
        super().__init__("the database does not answer")


class _Undoable(Generic[R]):
    """A job that is undone in its thread where it is done after nobody waits for it any more."""

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
        """Nobody waits for it any more; whether it was done before, and is to be undone by whoever says so."""
        with self._lock:
            self._is_disowned = True
            return self._is_done


class Threads:
    """A pool of at most `size` threads, each with its own database connections.

    Where there is a `patience`, in seconds, whoever waits for a job waits no longer.
    """

    def __init__(self, name: str, size: int, *, patience: float | None = None) -> None:
        self._name = name
        self._size = size
        self._patience = patience
        self._threads = DaemonThreads(name, size)
        self._gathered: dict[Do[Any, Any], Gathered[Any, Any]] = {}

    def start(self, function: Callable[..., R], *args: Any) -> "asyncio.Future[R]":
        """Run `function` in a thread; the future of its result, on the running loop."""
        return self._threads.start(partial(on_usable_connections, function, args))

    def start_together(self, do: Do[T, R], item: T, company: Company = NOBODY) -> "asyncio.Future[R]":
        """Run `do` in a thread with `item` and what else comes for it at this moment; the future of what becomes of it.

        Cancelled before it began, it never begins.
        """
        if (gathered := self._gathered.get(do)) is None:
            gathered = self._gathered[do] = Gathered(self.start, do, self._size)
        return gathered.put(item, company)

    async def run(self, function: Callable[..., R], *args: Any) -> R:
        """As `start`, and wait. Cancelled meanwhile, the job still runs to its end. Raises SilentDatabaseError.

        A job that was not begun in time is dropped: while all threads wait, no queue grows behind them.
        """
        return await self.run_within(self._patience, function, *args)

    async def run_within(self, patience: float | None, function: Callable[..., R], *args: Any) -> R:
        """As `run`, with a patience of its own."""
        job = self.start(function, *args)
        limit = asyncio.timeout(patience)
        try:
            async with limit:
                return await asyncio.shield(job)
        except TimeoutError as error:
            if not limit.expired():
                raise
            job.cancel()
            raise SilentDatabaseError from error

    async def insist(self, function: Callable[..., R], *args: Any, seconds: float = math.inf) -> R:
        """As `run`, again and again while the database is away, for `seconds`: for what nobody else sees to."""
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                return await self.run(function, *args)
            except databases.AWAY as error:
                if time.monotonic() > give_up_at:
                    raise
                logger.error("the database is away, trying again: %s", str(error).strip())
                await asyncio.sleep(RETRY_SECONDS)

    async def run_or_undo(self, function: Callable[[], R], undo: Callable[[], object]) -> R:
        """As `run`; what a job does that nobody waits for any more is undone in a thread as soon as it is done."""
        job = _Undoable(function, undo)
        try:
            return await self.run(job)
        except BaseException:
            if job.disown():
                self.start(undo)
            raise

    async def close(self) -> None:
        """End the threads and their database connections, once what is queued has run."""
        if running := await self._threads.close(ENDING_SECONDS):
            logger.error("%d of the threads %s have not ended, and end with the process", running, self._name)


class _Asked(threading.local):
    """When the connections of a thread were last asked whether they live, by alias: the connection, the time."""

    def __init__(self) -> None:
        self.at: dict[str, tuple[object, float]] = {}


_asked = _Asked()


def on_usable_connections(function: Callable[..., R], args: tuple[Any, ...]) -> R:
    """Call `function` in this thread, its dead database connections dropped."""
    for connection in connections.all(initialized_only=True):
        # These threads live as long as the process: a CONN_MAX_AGE meant for web requests would reconnect at every job.
        connection.close_at = None
        connection.close_if_unusable_or_obsolete()
        _spare_a_question(connection)
    return function(*args)


def _spare_a_question(connection: Any) -> None:
    """Have Django ask the database whether it is there (`CONN_HEALTH_CHECKS`), but not before each job of many.

    A server that ends a connection says so on its line; where nothing has come, and the answer is not old, it stands.
    """
    if connection.connection is None or not connection.health_check_enabled:
        return
    own, asked_at = _asked.at.get(connection.alias, (None, 0.0))
    now = time.monotonic()
    if own is connection.connection and now - asked_at < ASK_AGAIN_SECONDS and _is_quiet(connection):
        connection.health_check_done = True
    elif not connection.health_check_done:
        _asked.at[connection.alias] = (connection.connection, now)


def _is_quiet(connection: Any) -> bool:
    """Whether its socket has nothing to be read: between two jobs a database speaks only to take leave."""
    if connection.vendor != "postgresql":
        return False
    line = select.poll()
    try:
        line.register(connection.connection.fileno(), select.POLLIN)
    except connection.Database.Error:  # it is closed
        return False
    return not line.poll(0)
