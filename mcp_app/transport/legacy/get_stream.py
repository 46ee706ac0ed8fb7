"""A session's GET stream: what the server has to say outside any request, that lists and watched resources changed and,
to a session that set level debug, that the site is there.

Several connections may be open; the newest has the stream, the others stay silent until it closes, so that each message
goes to exactly one. (The specification lets a client keep several streams, so that a second is not refused.) Ends with
its session. Source: 2025-11-25 basic/transports "Listening for Messages from the Server", "Multiple Connections".
"""

import asyncio
import time
import uuid
from functools import partial
from typing import Any

from mcp_app.conf import settings
from mcp_app.lifecycle import session_streams, sessions
from mcp_app.models import Session
from mcp_app.protocol import legacy_sse
from mcp_app.protocol.errors import session_not_found
from mcp_app.protocol.legacy_sse import EventId
from mcp_app.protocol.revisions import LEGACY
from mcp_app.transport import heartbeats
from mcp_app.transport.callers import ASK_AGAIN_SECONDS, Standing
from mcp_app.transport.concerned import concerned
from mcp_app.transport.heartbeats import ConnectionHeartbeat
from mcp_app.transport.legacy import notices
from mcp_app.transport.legacy.http_exchange import Peer
from mcp_app.transport.listen_stream import burst
from mcp_app.transport.subjects import Listener


class GetStream:
    """One connection that listens for a session."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self._peer = peer
        self._session = session
        self._id = uuid.uuid4()
        self._listener: Listener | None = None
        self._watched: dict[str, str] = {}
        self._noted_at = time.monotonic()
        self._ended = False

    def end(self) -> None:
        """The server process is to end: the client comes back to another."""
        self._ended = True
        if self._listener is not None:
            self._listener.end()

    async def run(self, seen: int | None) -> None:
        """Serve it; `seen` is the last event that the client had of this stream."""
        server = self._peer.server
        await server.upkeep.vouch()
        release = partial(session_streams.release, self._session.pk, self._id)
        session = await server.rows.run_or_undo(partial(self._claim, seen), release)
        try:
            if session is None:
                await self._peer.response.reject(session_not_found())
                return
            await self._open(session.stream_seq)
            with server.heartbeats.of_connection() as heartbeat:
                while session is not None and not self._ended:
                    await self._serve(session, heartbeat)
                    session = await server.rows.run(sessions.reload, session.pk)
            if session is not None:
                await self._cut()
            await self._peer.response.end()
        finally:
            await server.rows.run(release)

    async def _serve(self, session: Session, heartbeat: ConnectionHeartbeat) -> None:
        """Tell of changes, and that the site is there, until the session is changed or ends."""
        self._watched = notices.resources(session.subscriptions)
        told = notices.of_lists(self._peer.principal.endpoint) | notices.of_resources(self._watched)
        own = sessions.subject(session.pk)
        listener = self._listener = await self._peer.server.tail.listen((*told, own))
        try:
            version = listener.known[own]
            current = await self._peer.server.rows.run(sessions.reload, session.pk)
            if current is None or current.subscriptions != session.subscriptions:
                return
            # Whoever has the stream has its beats as well.
            heartbeat.want(current.log_level == heartbeats.LEVEL and current.stream == self._id)
            while not self._ended and listener.known[own] == version:
                standing = await self._peer.caller.confirm()
                if standing == Standing.GONE:
                    self._ended = True
                    return
                if standing == Standing.CONFIRMED:
                    await self._tell(listener, told)
                    await self._wait(listener, heartbeat, self._peer.caller.seconds_until_due)
                else:
                    await self._wait(listener, heartbeat, ASK_AGAIN_SECONDS)
        finally:
            listener.close()

    async def _open(self, first: int) -> None:
        await self._peer.response.start_events()
        if self._primes:
            await self._peer.response.frame(legacy_sse.prime(EventId(None, first), settings.RETRY_MS))

    async def _tell(self, listener: Listener, told: dict[str, dict[str, Any]]) -> None:
        """Tell what this session has not been told and may be, if this connection has its stream."""
        server, session_id = self._peer.server, self._session.pk
        known = {subject: listener.known[subject] for subject in told}
        untold = await server.rows.run(session_streams.untold, session_id, known)
        concerns = await concerned(server, self._peer.principal, untold, self._watched)
        # What becomes untold meanwhile, as a connection comes back for what it missed, waits for the next turn: nobody
        # has asked whether it concerns the caller.
        asked = {subject: known[subject] for subject in untold}
        tell = partial(
            session_streams.tell, session_id, self._id, server.identity.boot_id, asked, passed_over=untold - concerns
        )
        events = await server.rows.run(tell)
        for number, (subject, seq) in enumerate(events):
            # Changes of one list may be of several subjects: told once, by the number of the last.
            if all(told[later] != told[subject] for later, _ in events[number + 1 :]):
                await self._peer.response.frame(legacy_sse.event(told[subject], EventId(None, seq)))

    async def _wait(self, listener: Listener, heartbeat: ConnectionHeartbeat, seconds: float) -> None:
        """Until something changed, and no longer than this; beats and comments are sent meanwhile, and are signs of the
        session's life."""
        until = time.monotonic() + seconds
        while not listener.ended and (left := until - time.monotonic()) > 0:
            if not heartbeat.wait and (beat := await heartbeat.take()) is not None:
                # Without an id: what was missed of it is not told again.
                await self._peer.response.event(beat)
            if not self._patience:
                await self._peer.response.keep_alive()
            await self._note_life()
            try:
                async with asyncio.timeout(min(self._patience, heartbeat.wait, left)):
                    await listener.next()
            except TimeoutError:
                continue
            await burst(listener)
            return

    @property
    def _patience(self) -> float:
        """Seconds until the client must hear something."""
        keep_alive: float = settings.KEEP_ALIVE
        return max(0.0, keep_alive - self._peer.response.silent_seconds)

    async def _note_life(self) -> None:
        if time.monotonic() - self._noted_at >= settings.KEEP_ALIVE:
            self._noted_at = time.monotonic()
            await self._peer.server.rows.run(sessions.touch, self._session.pk)

    async def _cut(self) -> None:
        if self._primes:
            await self._peer.response.frame(legacy_sse.retry(settings.RETRY_MS))

    def _claim(self, seen: int | None) -> Session | None:
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
