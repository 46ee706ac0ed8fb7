"""A value that many requests read at once: each is given one that was read after it asked, and they share the readings.

Refuses to keep a value: a reading is for those who asked before it began.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from mcp_app.transport.threads import Threads

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class Newest(Generic[R]):
    """What `read` says, in a thread. Belongs to one event loop."""

    def __init__(self, threads: Threads, read: Callable[[], R]) -> None:
        self._threads = threads
        self._read = read
        self._running: asyncio.Task[R] | None = None
        self._following: asyncio.Task[R] | None = None

    async def get(self) -> R:
        """Read now, or with the others who wait for a reading that is yet to begin. Raises what `read` does."""
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._after(self._running), name="mcp-newest")
        # Shielded: others wait for it, too.
        return await asyncio.shield(self._following)

    async def _after(self, before: asyncio.Task[R] | None) -> R:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._following = self._following, None
        return await self._threads.run(self._read)


class NewestOf(Generic[K, R]):
    """The same of many things: what `read` says of each key, of which those are kept that somebody waits for."""

    def __init__(self, threads: Threads, read: Callable[[K], R]) -> None:
        self._threads = threads
        self._read = read
        self._waited_for: dict[K, Newest[R]] = {}
        self._waiting: Counter[K] = Counter()

    async def get(self, key: K) -> R:
        """Of `key`, as `Newest.get`."""
        if (newest := self._waited_for.get(key)) is None:
            newest = self._waited_for[key] = Newest(self._threads, partial(self._read, key))
        self._waiting[key] += 1
        try:
            return await newest.get()
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._waited_for[key]
