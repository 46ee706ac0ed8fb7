"""Threads for the code of resources, prompts and completions, which runs in the server process.

A thread cannot be stopped. A function that exceeds its time keeps its thread until it returns. Its
client gets an error at once, and the process does not wait for it to end.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import connections

from mcp_app.conf import settings
from mcp_app.transport.process.threads import Threads

logger = logging.getLogger(__name__)

R = TypeVar("R")

ENDING_SECONDS = 2.0
"""How long running jobs may still take when the process ends."""


class TookTooLongError(Exception):
    """The job did not end within `READ_TIME_LIMIT`, or did not start."""


class EscapedError(Exception):
    """The job raised a `BaseException` such as `SystemExit`, which would end the event loop."""


class AuthorThreads:
    """A pool of at most `READ_THREADS` threads."""

    def __init__(self) -> None:
        self._threads = Threads("author", settings.READ_THREADS)

    async def run(self, function: Callable[..., R], *args: Any) -> R:
        """Run `function` in a thread.

        Raises the exceptions that it raises, `TookTooLongError` and `EscapedError`.
        """
        result: asyncio.Future[R] = self._threads.start(_contained, function, *args)
        try:
            done, _ = await asyncio.wait([result], timeout=settings.READ_TIME_LIMIT)
        except asyncio.CancelledError:
            result.cancel()  # drops a job that has not begun
            raise
        if not done:
            result.cancel()
            raise TookTooLongError
        return await result

    async def close(self) -> None:
        """End the threads and their database connections.

        Threads that do not end soon end with the process.
        """
        await self._threads.close(ENDING_SECONDS)


def _contained(function: Callable[..., R], *args: Any) -> R:
    try:
        return function(*args)
    except Exception:
        raise
    except BaseException as error:
        raise EscapedError(f"{type(error).__name__} was raised") from error
    finally:
        _drop_unfinished()


def _drop_unfinished() -> None:
    """Roll back a transaction that was left open. Otherwise the next job would run inside it."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            logger.warning(
                "a resource, prompt or completion left a transaction open on the database %s; it is rolled back",
                connection.alias,
            )
            connection.close()
            del connections[connection.alias]
