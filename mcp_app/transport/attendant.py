"""One task and one timer for all listen streams of a server process: it has each do what is due, many at a time.

So a stream that waits costs neither a task nor a timer. Refuses to know what is due to a stream: the stream does.
"""

import asyncio
import time
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol

TOGETHER: Final = 100
"""Streams that begin in one turn of the event loop: other requests wait for all of a turn."""


class Attended(Protocol):
    """A stream that waits."""

    due_at: float
    """When it is to be attended to next, by the monotonic clock."""

    async def attend(self) -> None:
        """Do what is due, and set `due_at` anew. Never fails; begun again only when it has ended."""


class Attendant:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._attended: dict[Attended, asyncio.Task[None] | None] = {}
        """Every stream, with what it does now."""
        self._due: list[tuple[float, int, Attended]] = []
        """A heap. An entry that does not say what its stream says by now is passed over."""
        self._numbers = count()
        self._sooner = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, stream: Attended) -> None:
        """Attend to a stream from now on."""
        self._attended[stream] = None
        self.reschedule(stream)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mcp-attendant")

    def reschedule(self, stream: Attended) -> None:
        """Its `due_at` is another now; nothing where it is not attended to, or busy: then it is asked afterwards."""
        if self._attended.get(stream, self) is None:
            heappush(self._due, (stream.due_at, next(self._numbers), stream))
            if self._due[0][2] is stream:
                self._sooner.set()

    def end(self, stream: Attended) -> None:
        """Attend to it no more; what it does now is cancelled, unless that says so itself."""
        working = self._attended.pop(stream, None)
        if working is not None and working is not asyncio.current_task():
            working.cancel()
        if not self._attended:
            self._due.clear()
            if self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        while True:
            await self._wait()
            for _ in range(TOGETHER):
                if self._due and self._due[0][0] <= time.monotonic():
                    self._begin_next()
            await asyncio.sleep(0)

    async def _wait(self) -> None:
        self._sooner.clear()
        seconds = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
        if seconds == 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._sooner.wait()
        except TimeoutError:
            return

    def _begin_next(self) -> None:
        due_at, _, stream = heappop(self._due)
        if self._attended.get(stream, self) is None and stream.due_at == due_at:
            work = asyncio.get_running_loop().create_task(self._attend(stream), name="mcp-attend")
            self._attended[stream] = work

    async def _attend(self, stream: Attended) -> None:
        await stream.attend()
        if stream in self._attended:
            self._attended[stream] = None
            self.reschedule(stream)
