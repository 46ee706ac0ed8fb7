"""Stores this server process's listen streams as rows, and closes them on request.

Administrators see the streams in the admin and can close them there. The rows are written in
batches, in the background. A stream does not wait for its row. If the row cannot be written, the
stream is served, but the admin does not show it.
"""

import asyncio
import logging
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from mcp_app.lifecycle.sessions import listen_streams
from mcp_app.models import ListenStream
from mcp_app.transport.process.threads import Threads
from mcp_app.transport.watching.change_table import ChangeListener
from mcp_app.transport.watching.row_watcher import RowWatcher

logger = logging.getLogger(__name__)

BATCH_ROWS: Final = 200
"""Rows in one transaction. Other writers wait for the whole transaction."""
BATCH_SECONDS: Final = 0.1
"""Streams opened within this time are inserted in one batch. A stream that ends earlier is not
stored."""
RETRY_SECONDS: Final = 2.0


class Closable(Protocol):
    """An open stream."""

    def end(self) -> None:
        """End gracefully, soon."""


class OpenStreams:
    """The rows of this process's listen streams. All methods are called on one event loop."""

    def __init__(self, server: UUID, threads: Threads, row_watcher: RowWatcher) -> None:
        self.server = server
        self._threads = threads
        self._row_watcher = row_watcher
        self._open: dict[UUID, Closable] = {}
        self._unstored: dict[UUID, ListenStream] = {}
        self._ended: set[UUID] = set()
        """Streams that have ended and whose rows may exist."""
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._listener: ChangeListener | None = None
        self._closing: asyncio.Task[None] | None = None

    def add(self, row: ListenStream, stream: Closable) -> None:
        """Store a stream until it is removed. Never raises."""
        self._open[row.pk] = stream
        self._unstored[row.pk] = row
        self._begin()

    def remove(self, pk: UUID) -> None:
        """Delete the row of a stream that has ended. Ignores unknown keys. Never raises."""
        if self._open.pop(pk, None) is None:
            return
        if self._unstored.pop(pk, None) is None:
            self._ended.add(pk)
        self._begin()

    async def close(self) -> None:
        """Delete the remaining rows, even those of streams that are still open."""
        self._closed = True
        self._unstored.clear()
        if self._task is not None:
            await self._task
        if self._listener is not None:
            self._stop_listening()
            await self._threads.run(listen_streams.forget_server, self.server)

    def _begin(self) -> None:
        if not self._closed and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mcp-open-streams")

    async def _run(self) -> None:
        while self._unstored or self._ended:
            await asyncio.sleep(BATCH_SECONDS)
            if self._unstored or self._ended:
                await self._store()
        if not self._open:
            self._stop_listening()

    async def _store(self) -> None:
        """Write one batch. If that fails, it is tried again."""
        opened = {pk: self._unstored.pop(pk) for pk in list(islice(self._unstored, BATCH_ROWS))}
        ended = set(islice(self._ended, BATCH_ROWS))
        try:
            # Before a row can be seen, so that no request to close it is missed.
            await self._listen()
            await self._threads.run(listen_streams.store, list(opened.values()), ended)
        except Exception as error:
            self._unstored.update({pk: row for pk, row in opened.items() if pk in self._open})
            logger.warning("%d listen streams could not be stored for the admin, trying again: %s", len(opened), error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            self._ended -= ended

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await self._row_watcher.listen((listen_streams.subject(self.server),))
            loop = asyncio.get_running_loop()
            self._closing = loop.create_task(self._close_requested(self._listener), name="mcp-closing-streams")

    def _stop_listening(self) -> None:
        if self._listener is not None and self._closing is not None:
            self._listener.close()
            self._closing.cancel()
            self._listener = self._closing = None

    async def _close_requested(self, listener: ChangeListener) -> None:
        while True:
            await listener.next()
            for pk in await self._to_close():
                if (stream := self._open.get(pk)) is not None:
                    stream.end()

    async def _to_close(self) -> list[UUID]:
        while True:
            try:
                return await self._threads.run(listen_streams.list_close_requested, self.server)
            except Exception as error:
                logger.warning("it could not be read which listen streams to close, trying again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
