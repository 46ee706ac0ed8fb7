"""The listen streams that this server process holds, made known as rows, and closed where somebody asks for that.

Written behind the streams' backs, many together: none waits for its row, and one that cannot be written is served like
any other; nobody sees it then. Refuses to decide what a stream tells.
"""

import asyncio
import logging
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from mcp_app.lifecycle import listen_streams
from mcp_app.models import ListenStream
from mcp_app.transport.subjects import Listener
from mcp_app.transport.tail import Tail
from mcp_app.transport.threads import Threads

logger = logging.getLogger(__name__)

TOGETHER: Final = 200
"""Rows in one transaction: other writers wait for the whole of it."""
GATHER_SECONDS: Final = 0.1
"""What is opened meanwhile is stored together; what ended by then is not stored at all."""
RETRY_SECONDS: Final = 2.0


class Closable(Protocol):
    """An open stream."""

    def end(self) -> None:
        """Have it end itself gracefully, soon."""


class OpenStreams:
    """Belongs to one event loop. `threads` is where the database is waited for."""

    def __init__(self, server: UUID, threads: Threads, tail: Tail) -> None:
        self.server = server
        self._threads = threads
        self._tail = tail
        self._open: dict[UUID, Closable] = {}
        self._unstored: dict[UUID, ListenStream] = {}
        self._ended: set[UUID] = set()
        """Those that have a row, or may have one."""
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._listener: Listener | None = None
        self._closing: asyncio.Task[None] | None = None

    def add(self, row: ListenStream, stream: Closable) -> None:
        """Have the stream known by its row until it is removed. Never raises."""
        self._open[row.pk] = stream
        self._unstored[row.pk] = row
        self._begin()

    def remove(self, pk: UUID) -> None:
        """The stream that has this row has ended; nothing where none is known by it. Never raises."""
        if self._open.pop(pk, None) is None:
            return
        if self._unstored.pop(pk, None) is None:
            self._ended.add(pk)
        self._begin()

    async def close(self) -> None:
        """Forget what is left, also of streams that have not ended in time."""
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
            await asyncio.sleep(GATHER_SECONDS)
            if self._unstored or self._ended:
                await self._store()
        if not self._open:
            self._stop_listening()

    async def _store(self) -> None:
        """One batch; what could not be stored is tried again."""
        opened = {pk: self._unstored.pop(pk) for pk in list(islice(self._unstored, TOGETHER))}
        ended = set(islice(self._ended, TOGETHER))
        try:
            # Before anybody can see a row, so that no wish to close it is missed.
            await self._listen()
            await self._threads.run(listen_streams.store, list(opened.values()), ended)
        except Exception as error:
            self._unstored.update({pk: row for pk, row in opened.items() if pk in self._open})
            logger.warning("%d listen streams are not to be seen yet, trying again: %s", len(opened), error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            self._ended -= ended

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await self._tail.listen((listen_streams.subject(self.server),))
            loop = asyncio.get_running_loop()
            self._closing = loop.create_task(self._close_as_asked(self._listener), name="mcp-closing-streams")

    def _stop_listening(self) -> None:
        if self._listener is not None and self._closing is not None:
            self._listener.close()
            self._closing.cancel()
            self._listener = self._closing = None

    async def _close_as_asked(self, listener: Listener) -> None:
        while True:
            await listener.next()
            for pk in await self._to_close():
                if (stream := self._open.get(pk)) is not None:
                    stream.end()

    async def _to_close(self) -> list[UUID]:
        while True:
            try:
                return await self._threads.run(listen_streams.to_close, self.server)
            except Exception as error:
                logger.warning("which listen streams are to be closed cannot be read, trying again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
