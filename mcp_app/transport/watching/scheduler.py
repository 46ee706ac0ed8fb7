"""Schedules the work of all listen streams of a server process with one task and one timer.

A waiting stream costs neither a task nor a timer of its own. Each stream has a `due_at`; the
scheduler starts a short task for each stream that is due. How many of these tasks run at the same
time is not limited.
"""

import asyncio
import time
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol

STREAMS_IN_A_TURN: Final = 100
"""Streams started before the event loop may do other work, which waits for all of them."""


class ScheduledStream(Protocol):
    """A stream that has work to do at certain times."""

    due_at: float
    """When its next work is due (`time.monotonic`)."""

    async def serve(self) -> None:
        """Do the work that is due and set `due_at`.

        Must not raise, or the stream would never be served again. Never runs twice at the same
        time.
        """


class StreamScheduler:
    """Runs streams when they are due. All methods are called on one event loop."""

    def __init__(self) -> None:
        self._streams: dict[ScheduledStream, asyncio.Task[None] | None] = {}
        """Every stream, with the task that serves it now, or `None`."""
        self._due: list[tuple[float, int, ScheduledStream]] = []
        """A heap. An entry is skipped if its stream has another `due_at` now."""
        self._numbers = count()
        self._sooner = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, stream: ScheduledStream) -> None:
        self._streams[stream] = None
        self.reschedule(stream)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mcp-stream-scheduler")

    def reschedule(self, stream: ScheduledStream) -> None:
        """Move a stream to its new `due_at`.

        Ignored if the stream was not added, or was removed. A stream that is being served is
        rescheduled afterwards.
        """
        if self._streams.get(stream, self) is None:
            heappush(self._due, (stream.due_at, next(self._numbers), stream))
            if self._due[0][2] is stream:
                self._sooner.set()

    def remove(self, stream: ScheduledStream) -> None:
        """Stop serving a stream.

        Cancels the task that serves it now, unless that task is the caller.
        """
        serving = self._streams.pop(stream, None)
        if serving is not None and serving is not asyncio.current_task():
            serving.cancel()
        if not self._streams:
            self._due.clear()
            if self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        while True:
            self._sooner.clear()
            seconds = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            if seconds != 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._sooner.wait()
            for _ in range(STREAMS_IN_A_TURN):
                if self._due and self._due[0][0] <= time.monotonic():
                    self._start_next()
            await asyncio.sleep(0)

    def _start_next(self) -> None:
        due_at, _, stream = heappop(self._due)
        if self._streams.get(stream, self) is None and stream.due_at == due_at:
            serving = asyncio.get_running_loop().create_task(self._serve(stream), name="mcp-serve-stream")
            self._streams[stream] = serving

    async def _serve(self, stream: ScheduledStream) -> None:
        await stream.serve()
        if stream in self._streams:
            self._streams[stream] = None
            self.reschedule(stream)
