"""A legacy client's session over stdio: in memory, for as long as its connection; nothing of it is stored.

Owns what the session keeps and what it is told outside any request: changes, and the heartbeat. Refuses to tell changes
before its client is initialized. Source: 2025-11-25 basic/lifecycle, server/utilities/logging, server/resources
"Subscriptions".
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle import redaction
from mcp_app.protocol.legacy_requests import Handshake
from mcp_app.protocol.revisions import Revision
from mcp_app.transport import heartbeats
from mcp_app.transport.callers import ASK_AGAIN_SECONDS
from mcp_app.transport.concerned import concerned
from mcp_app.transport.legacy import notices
from mcp_app.transport.legacy.notices import Notices
from mcp_app.transport.listen_stream import burst
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.server import Server
from mcp_app.transport.stdio.writer import Writer
from mcp_app.transport.subjects import Listener

logger = logging.getLogger(__name__)


class Telling:
    """What goes on telling a client of something, until it is ended."""

    def __init__(self, tell: Callable[[], Awaitable[None]], listener: Listener | None = None) -> None:
        """The `listener` is closed with it."""
        self._task = asyncio.get_running_loop().create_task(self._run(tell), name="mcp-session")
        if listener is not None:  # not in the task, which may end before it begins
            self._task.add_done_callback(lambda _: listener.close())

    def end(self) -> None:
        self._task.cancel()

    async def ended(self) -> None:
        await asyncio.wait([self._task])

    async def _run(self, tell: Callable[[], Awaitable[None]]) -> None:
        try:
            await tell()
        except PeerGoneError as error:
            logger.info("a session is told nothing more: %s", error)
        except Exception:
            logger.exception("a session is told nothing more of this")


class Session:
    """A `LegacySession`, from `initialize` to the end of its connection."""

    def __init__(
        self, server: Server, writer: Writer, principal: Principal, revision: Revision, handshake: Handshake
    ) -> None:
        self.revision = revision
        self.handshake = handshake
        self.asking: set[UUID] = set()
        """The calls whose client has been asked something: what it answers is for one of them."""
        self._server = server
        self._writer = writer
        self._principal = principal
        self._registering = asyncio.Lock()
        self._ready = asyncio.Event()
        self._lists: Telling | None = None
        self._watched: dict[str, Telling] = {}
        self._beats: Telling | None = None
        self._initialized = asyncio.Event()

    async def set_log_level(self, level: str) -> None:
        self.handshake = replace(self.handshake, log_level=level)
        if level != heartbeats.LEVEL and self._beats is not None:
            self._beats.end()
            self._beats = None
        elif level == heartbeats.LEVEL and self._beats is None:
            self._beats = Telling(self._beat)

    async def subscribe(self, uri: str) -> bool:
        """Raises django.db.Error."""
        async with self._registering:
            resource = notices.resources([uri])
            if uri not in self._watched:
                if len(self._watched) >= settings.MAX_RESOURCE_SUBSCRIPTIONS:
                    return False
                self._watched[uri] = await self._tell(notices.of_resources(resource), resource)
        return True

    async def unsubscribe(self, uri: str) -> None:
        async with self._registering:
            if (telling := self._watched.pop(uri, None)) is not None:
                telling.end()

    def initialized(self) -> bool:
        """The client is ready to be told; whether it says so for the first time."""
        is_first = not self._initialized.is_set()
        self._initialized.set()
        return is_first

    async def listen(self, principal: Principal) -> None:
        """Miss no change of a list from now on; `principal` is who the caller turned out to be. Raises
        django.db.Error."""
        self._principal = principal
        async with self._registering:
            if self._lists is None and not self._server.admission.draining:
                self._lists = await self._tell(notices.of_lists(principal.endpoint), {}, held=True)
                self._ready.set()

    def end(self) -> None:
        """Tell nothing more: the connection or the server process is to end."""
        for telling in self._tellings:
            telling.end()

    async def ended(self) -> None:
        for telling in self._tellings:
            await telling.ended()

    @property
    def _tellings(self) -> list[Telling]:
        return [each for each in (self._lists, self._beats, *self._watched.values()) if each is not None]

    async def _tell(self, told: Notices, resources: Mapping[str, str], *, held: bool = False) -> Telling:
        """Tell of these changes, from now on; `held`: as the principal's one subscription."""
        listener = await self._server.tail.listen(tuple(told))

        async def tell() -> None:
            admitted = self._server.admission.listeners
            with admitted.hold(self._principal, self) if held else nullcontext():
                await self._follow(listener, told, resources)

        return Telling(tell, listener)

    async def _follow(self, listener: Listener, told: Notices, resources: Mapping[str, str]) -> None:
        await self._initialized.wait()
        while True:
            changed = await listener.next()
            changed |= await burst(listener)
            concerns = await self._concerned(changed & told.keys(), resources)
            for notice in notices.distinct(told[subject] for subject in told if subject in concerns):
                await self._writer.write(notice)

    async def _concerned(self, changed: Collection[Any], resources: Mapping[str, str]) -> set[Any]:
        """As `concerned`; asked again where that fails, as nobody opens this stream anew."""
        while True:
            try:
                return await concerned(self._server, self._principal, changed, resources)
            except Exception as error:
                logger.error("whom a change concerns was not said", exc_info=redaction.wordless(error))
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _beat(self) -> None:
        await self._ready.wait()
        with self._server.heartbeats.of_connection() as heartbeat:
            heartbeat.want(True)
            while True:
                await asyncio.sleep(heartbeat.wait)
                if (beat := await heartbeat.take()) is not None:
                    await self._writer.write(beat)
