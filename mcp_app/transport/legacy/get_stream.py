"""A session's GET stream: what the server has to say outside any request. Here: that the list of tools changed.

Several connections may be open; the newest has the stream, the others stay silent until it closes, so that each message
goes to exactly one. (The specification lets a client keep several streams, so that a second is not refused.) Ends with
its session. Source: 2025-11-25 basic/transports "Listening for Messages from the Server", "Multiple Connections".
"""

import asyncio
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mcp_app.conf import settings
from mcp_app.lifecycle import session_streams, sessions
from mcp_app.models import TOOL_LIST, Session
from mcp_app.protocol import legacy_sse
from mcp_app.protocol.errors import session_not_found
from mcp_app.protocol.jsonrpc import notification
from mcp_app.protocol.legacy_sse import EventId
from mcp_app.protocol.revisions import LEGACY, Revision
from mcp_app.transport.legacy.exchange import Peer
from mcp_app.transport.listen_stream import burst
from mcp_app.transport.tail import Listener

NOTIFICATIONS: Final[Mapping[str, str]] = MappingProxyType({TOOL_LIST: "notifications/tools/list_changed"})
"""By the subject whose change they tell."""


class GetStream:
    """One connection that listens for a session."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self._peer = peer
        self._session = session
        self._id = uuid.uuid4()
        self._listener: Listener | None = None
        self._ended = False

    def end(self) -> None:
        """The server process is to end: the client comes back to another."""
        self._ended = True
        if self._listener is not None:
            self._listener.end()

    async def run(self, seen: int | None) -> None:
        """Serve it; `seen` is the last event that the client had of this stream."""
        rows, own = self._peer.server.rows, sessions.subject(self._session.pk)
        self._listener = await self._peer.server.tail.listen((*NOTIFICATIONS, own))
        try:
            if await rows.run(self._claim, seen):
                await self._serve(self._listener, own, seen)
            else:
                await self._peer.response.reject(session_not_found())
        finally:
            self._listener.close()
            await rows.run(session_streams.release, self._session.pk, self._id)

    async def _serve(self, listener: Listener, own: str, seen: int | None) -> None:
        await self._open(seen)
        while not self._ended and listener.known[own]:
            await self._tell(listener)
            await self._wait(listener)
        if listener.known[own]:
            await self._cut()
        await self._peer.response.end()

    async def _open(self, seen: int | None) -> None:
        await self._peer.response.start_events()
        if self._revision.primes_streams:
            first = self._session.stream_seq if seen is None else seen
            await self._peer.response.frame(legacy_sse.prime(EventId(None, first), settings.RETRY_MS))

    async def _tell(self, listener: Listener) -> None:
        """Tell what this session has not been told, if this connection has its stream."""
        current = {subject: listener.known[subject] for subject in NOTIFICATIONS}
        events = await self._peer.server.rows.run(session_streams.tell, self._session.pk, self._id, current)
        for subject, seq in events:
            message = notification(NOTIFICATIONS[subject], {})
            await self._peer.response.frame(legacy_sse.event(message, EventId(None, seq)))

    async def _wait(self, listener: Listener) -> None:
        """Until something changed, or a comment was due; both are signs of the session's life."""
        response = self._peer.response
        try:
            async with asyncio.timeout(max(0.0, settings.KEEP_ALIVE - response.silent_seconds)):
                if await listener.next():
                    await burst(listener)
        except TimeoutError:
            await response.keep_alive()
            await self._peer.server.rows.run(sessions.touch, self._session.pk)

    async def _cut(self) -> None:
        if self._revision.primes_streams:
            await self._peer.response.frame(legacy_sse.retry(settings.RETRY_MS))

    def _claim(self, seen: int | None) -> bool:
        server = self._peer.server.identity.boot_id
        return session_streams.claim(self._session.pk, self._id, server, seen=seen)

    @property
    def _revision(self) -> Revision:
        return LEGACY[self._session.protocol_version]


async def serve(peer: Peer, session: Session, *, seen: int | None = None) -> None:
    """Serve a GET of `session`; `seen` where it resumes the stream."""
    admission = peer.server.admission
    if (refusal := admission.refuse_listener(peer.principal, None)) is not None:
        await peer.response.reject(refusal)
        return
    stream = GetStream(peer, session)
    with admission.listeners.hold(peer.principal, stream):
        await stream.run(seen)
