"""Threads for authors' code in the server process: resources, prompts, completions. Few, bounded in time.

A thread cannot be stopped: what overruns its time keeps its thread until it ends by itself, while its client is
answered and the process may end. Refuses to wait for such a thread.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from django.db import connections

from mcp_app.conf import settings
from mcp_app.transport.daemon_threads import DaemonThreads
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
    """A pool of at most READ_THREADS threads."""

    def __init__(self) -> None:
        self._threads = DaemonThreads("author", settings.READ_THREADS)

    async def run(self, function: Callable[..., R], *args: Any) -> R:
        """Run `function` in a thread. Raises the exceptions that it raises, `TookTooLongError` and `EscapedError`."""
        result = self._threads.start(partial(_contained, partial(on_usable_connections, function, args)))
        done, _ = await _wait(result, settings.READ_TIME_LIMIT)
        if not done:
            result.cancel()
            raise TookTooLongError
        return await result

    async def close(self) -> None:
        """End the threads and their database connections; those that do not end soon are left to the process's end."""
        if running := await self._threads.close(ENDING_SECONDS):
            logger.warning("%d resources, prompts or completions have not ended yet", running)


async def _wait(result: "asyncio.Future[R]", seconds: float) -> tuple[set[Any], set[Any]]:
    """Wait for `result`; cancelled meanwhile, cancel it, so that a job that has not begun never does."""
    try:
        return await asyncio.wait([result], timeout=seconds)
    except asyncio.CancelledError:
        result.cancel()
        raise


def _contained(function: Callable[[], R]) -> R:
    try:
        return function()
    except Exception:
        raise
    except BaseException as error:
        raise EscapedError(f"{type(error).__name__} was raised") from error
    finally:
        _drop_unfinished()


def _drop_unfinished() -> None:
    """A transaction that was left open is rolled back, or the next job would run inside it."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            logger.warning("a resource, prompt or completion left a transaction open; it is rolled back")
            connection.close()
            del connections[connection.alias]
