"""Threads for authors' code in the server process: resources, prompts, completions. Few, bounded in time, daemons.

A thread cannot be stopped: what overruns its time keeps its thread until it ends by itself, while its client is
answered and the process may end. Refuses to wait for such a thread.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from django.db import connections

from mcp_app.conf import settings
from mcp_app.transport.threads import on_usable_connections

logger = logging.getLogger(__name__)

R = TypeVar("R")

ENDING_SECONDS = 2.0
"""What jobs that still run are given when the process ends."""


class TookTooLongError(Exception):
    """The job did not end, or did not begin, within READ_TIME_LIMIT."""


class EscapedError(Exception):
    """The job raised what is no `Exception`: SystemExit, say, which would end the event loop that waits for it."""


class AuthorThreads:
    """A pool of at most READ_THREADS threads, started as they are needed, each with its own database connections."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._ended: list[Future[None]] = []

    async def run(self, function: Callable[..., R], *args: Any) -> R:
        """Run `function` in a thread. Raises the exceptions that it raises, `TookTooLongError` and `EscapedError`."""
        job: Future[R] = Future()
        self._jobs.put((job, partial(on_usable_connections, function, args)))
        self._start_one_if_all_are_busy()
        result = asyncio.wrap_future(job)
        done, _ = await _wait(result, settings.READ_TIME_LIMIT)
        if not done:
            result.cancel()
            raise TookTooLongError
        return await result

    async def close(self) -> None:
        """End the threads and their database connections; those that do not end soon are left to the process's end."""
        for _ in self._ended:
            self._jobs.put(None)
        if not self._ended:
            return
        _, running = await asyncio.wait(map(asyncio.wrap_future, self._ended), timeout=ENDING_SECONDS)
        for waiting in running:
            waiting.cancel()  # or its thread's end would call into a loop that is closed
        if running:
            logger.warning("%d resources, prompts or completions have not ended yet", len(running))

    def _start_one_if_all_are_busy(self) -> None:
        if self._idle.acquire(blocking=False) or len(self._ended) >= settings.READ_THREADS:
            return
        ended: Future[None] = Future()
        ended.set_running_or_notify_cancel()
        self._ended.append(ended)
        name = f"mcp-author-{len(self._ended)}"
        threading.Thread(target=self._work, args=(ended,), name=name, daemon=True).start()

    def _work(self, ended: Future[None]) -> None:
        while (taken := self._jobs.get()) is not None:
            job, function = taken
            if job.set_running_or_notify_cancel():
                _do(job, function)
            if self._jobs.empty():
                self._idle.release()
        connections.close_all()
        ended.set_result(None)


async def _wait(result: "asyncio.Future[R]", seconds: float) -> tuple[set[Any], set[Any]]:
    """Wait for `result`; cancelled meanwhile, cancel it, so that a job that has not begun never does."""
    try:
        return await asyncio.wait([result], timeout=seconds)
    except asyncio.CancelledError:
        result.cancel()
        raise


def _do(job: Future[Any], function: Callable[[], Any]) -> None:
    try:
        result = function()
    except Exception as error:
        job.set_exception(error)
    except BaseException as error:
        escaped = EscapedError(f"{type(error).__name__} was raised")
        escaped.__cause__ = error
        job.set_exception(escaped)
    else:
        job.set_result(result)
    finally:
        _drop_unfinished()


def _drop_unfinished() -> None:
    """A transaction that was left open is rolled back, or the next job would run inside it."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            logger.warning("a resource, prompt or completion left a transaction open; it is rolled back")
            connection.close()
            del connections[connection.alias]
