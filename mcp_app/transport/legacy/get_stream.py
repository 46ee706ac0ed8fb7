"""A session's GET stream: what the server has to say outside any request, that lists and watched resources changed.

Several connections may be open; the newest has the stream, the others stay silent until it closes, so that each message
goes to exactly one. (The specification lets a client keep several streams, so that a second is not refused.) Ends with
its session. Source: 2025-11-25 basic/transports "Listening for Messages from the Server", "Multiple Connections".
"""

import asyncio
import uuid
from typing import Any

from mcp_app.conf import settings
from mcp_app.lifecycle import session_streams, sessions
from mcp_app.models import Session
from mcp_app.protocol import legacy_sse
from mcp_app.protocol.errors import session_not_found
from mcp_app.protocol.legacy_sse import EventId
from mcp_app.protocol.revisions import LEGACY
from mcp_app.transport.legacy.http_exchange import Peer
from mcp_app.transport.legacy.notices import notices
from mcp_app.transport.listen_stream import burst
from mcp_app.transport.tail import Listener


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
        rows = self._peer.server.rows
        try:
            if not await rows.run(self._claim, seen):
                await self._peer.response.reject(session_not_found())
                return
            await self._open(seen)
            session: Session | None = self._session
            while session is not None and not self._ended:
                await self._serve(session)
                session = await rows.run(sessions.reload, session.pk)
            if session is not None:
                await self._cut()
            await self._peer.response.end()
        finally:
            await rows.run(session_streams.release, self._session.pk, self._id)

    async def _serve(self, session: Session) -> None:
        """Tell of changes until what is to be told changes, or the session ends."""
        told, own = notices(session.subscriptions), sessions.subject(session.pk)
        listener = self._listener = await self._peer.server.tail.listen((*told, own))
        try:
            version = listener.known[own]
            current = await self._peer.server.rows.run(sessions.reload, session.pk)
            if current is None or current.subscriptions != session.subscriptions:
                return
            while not self._ended and listener.known[own] == version:
                await self._tell(listener, told)
                await self._wait(listener)
        finally:
            listener.close()

    async def _open(self, seen: int | None) -> None:
        await self._peer.response.start_events()
        if self._primes:
            first = self._session.stream_seq if seen is None else seen
            await self._peer.response.frame(legacy_sse.prime(EventId(None, first), settings.RETRY_MS))

    async def _tell(self, listener: Listener, told: dict[str, dict[str, Any]]) -> None:
        """Tell what this session has not been told, if this connection has its stream."""
        current = {subject: listener.known[subject] for subject in told}
        events = await self._peer.server.rows.run(session_streams.tell, self._session.pk, self._id, current)
        for subject, seq in events:
            await self._peer.response.frame(legacy_sse.event(told[subject], EventId(None, seq)))

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
        if self._primes:
            await self._peer.response.frame(legacy_sse.retry(settings.RETRY_MS))

    def _claim(self, seen: int | None) -> bool:
        server = self._peer.server.identity.boot_id
        return session_streams.claim(self._session.pk, self._id, server, seen=seen)

    @property
    def _primes(self) -> bool:
        return LEGACY[self._session.protocol_version].primes_streams


async def serve(peer: Peer, session: Session, *, seen: int | None = None) -> None:
    """Serve a GET of `session`; `seen` where it resumes the stream."""
    admission = peer.server.admission
    if (refusal := admission.refuse_listener(peer.principal, None)) is not None:
        await peer.response.reject(refusal)
        return
    stream = GetStream(peer, session)
    with admission.listeners.hold(peer.principal, stream):
        await stream.run(seen)
