"""Threads for blocking work: bounded pools of our own, off the one thread that every `sync_to_async` call queues on.

Each job starts on a usable database connection. Refuses to interrupt: a job whose caller was cancelled runs to its end.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from django.db import connections

R = TypeVar("R")


class Threads:
    """A pool of at most `size` threads, each with its own database connections."""

    def __init__(self, name: str, size: int) -> None:
        self._size = size
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=f"mcp-{name}")

    def start(self, function: Callable[..., R], *args: Any) -> "asyncio.Future[R]":
        """Run `function` in a thread; the future of its result, on the running loop."""
        job = partial(on_usable_connections, function, args)
        return asyncio.get_running_loop().run_in_executor(self._executor, job)

    async def run(self, function: Callable[..., R], *args: Any) -> R:
        """As `start`, and wait. Cancelled meanwhile, the job still runs to its end."""
        return await asyncio.shield(self.start(function, *args))

    async def run_to_end(self, function: Callable[..., R], *args: Any) -> R:
        """As `run`; cancelled meanwhile, it is over only when the job is, so that what was done can be undone."""
        job = self.start(function, *args)
        try:
            return await asyncio.shield(job)
        finally:
            await asyncio.wait([job])

    async def close(self) -> None:
        """Close the threads' database connections and end the threads, once what is queued has run."""
        barrier = threading.Barrier(self._size)
        await asyncio.gather(*(self.start(_close_connections, barrier) for _ in range(self._size)))
        self._executor.shutdown(wait=False)


def on_usable_connections(function: Callable[..., R], args: tuple[Any, ...]) -> R:
    """Call `function` in this thread, its dead database connections dropped."""
    for connection in connections.all(initialized_only=True):
        # These threads live as long as the process: a CONN_MAX_AGE meant for web requests would reconnect at every job.
        connection.close_at = None
        connection.close_if_unusable_or_obsolete()
    return function(*args)


def _close_connections(barrier: threading.Barrier) -> None:
    """Every thread takes one of these jobs, because none returns before all have begun."""
    connections.close_all()
    try:
        barrier.wait(timeout=5)
    except threading.BrokenBarrierError:
        return
