"""A session's GET stream: notifications outside of any request.

They are changes of lists and of watched resources and, if the session has set the level debug, a
heartbeat that shows that the site is alive.

Several connections may be open, because the specification allows several streams. The newest one
has the stream. The others stay silent until it closes, so that each message goes to exactly one.
The stream ends with its session.

A turn of `_serve` lasts until the session changes. It waits for changes, confirms the caller, and
asks the database which changes this connection may send. Source: 2025-11-25 basic/transports
"Listening for Messages from the Server", "Multiple Connections".
"""

import asyncio
import time
import uuid
from functools import partial
from typing import Any

from mcp_app.conf import settings
from mcp_app.lifecycle.sessions import session_streams, sessions
from mcp_app.models import Session
from mcp_app.protocol import sse
from mcp_app.protocol.errors import session_not_found
from mcp_app.protocol.revisions import LEGACY
from mcp_app.protocol.sse import EventId
from mcp_app.transport.legacy import notices
from mcp_app.transport.legacy.http_peer import HTTPPeer
from mcp_app.transport.process import heartbeats
from mcp_app.transport.process.heartbeats import Heartbeat
from mcp_app.transport.serving.callers import ASK_AGAIN_SECONDS, CallerStatus
from mcp_app.transport.subscriptions.filters import visible_changes
from mcp_app.transport.subscriptions.stream import wait_for_burst
from mcp_app.transport.watching.change_table import ChangeListener


class GetStream:
    """One connection that listens for a session."""

    def __init__(self, peer: HTTPPeer, session: Session) -> None:
        self._peer = peer
        self._session = session
        self._id = uuid.uuid4()
        self._listener: ChangeListener | None = None
        self._watched: dict[str, str] = {}
        self._touched_at = time.monotonic()
        self._ended = False

    def end(self) -> None:
        """End the connection, because the server process ends.

        The client reconnects to another process.
        """
        self._ended = True
        if self._listener is not None:
            self._listener.end()

    async def run(self, seen: int | None) -> None:
        """Serve the connection.

        `seen` is the last event of this stream that the client received.
        """
        server = self._peer.server
        await server.upkeep.ensure_alive()
        release = partial(session_streams.release, self._session.pk, self._id)
        claim = partial(session_streams.claim, self._session.pk, self._id, server.identity.boot_id, seen=seen)
        session = await server.rows.run_or_undo(claim, release)
        try:
            if session is None:
                await self._peer.response.reject(session_not_found())
                return
            await self._peer.response.start_events()
            if self._primes:
                await self._peer.response.frame(sse.prime(EventId(None, session.stream_seq), settings.RETRY_MS))
            with server.heartbeats.of_connection() as heartbeat:
                while session is not None and not self._ended:
                    await self._serve(session, heartbeat)
                    session = await server.rows.run(sessions.reload, session.pk)
            if session is not None and self._primes:
                await self._peer.response.frame(sse.retry(settings.RETRY_MS))
            await self._peer.response.end()
        finally:
            await server.rows.run(release)

    async def _serve(self, session: Session, heartbeat: Heartbeat) -> None:
        """Send changes and heartbeats until the session changes or ends."""
        self._watched = notices.subjects_of_resources(session.subscriptions)
        messages = notices.list_notices(self._peer.principal.endpoint) | notices.resource_notices(self._watched)
        own = sessions.subject(session.pk)
        listener = self._listener = await self._peer.server.row_watcher.listen((*messages, own))
        try:
            version = listener.known[own]
            current = await self._peer.server.rows.run(sessions.reload, session.pk)
            if current is None or current.subscriptions != session.subscriptions:
                return
            # The connection that has the stream also sends the heartbeats.
            heartbeat.want(current.log_level == heartbeats.LEVEL and current.stream == self._id)
            while not self._ended and listener.known[own] == version:
                standing = await self._peer.caller.confirm()
                if standing.ends_response:
                    self._ended = True
                    return
                if standing == CallerStatus.CONFIRMED:
                    await self._send_changes(listener, messages)
                    await self._wait(listener, heartbeat, self._peer.caller.seconds_to_wait)
                else:
                    await self._wait(listener, heartbeat, ASK_AGAIN_SECONDS)
        finally:
            listener.close()

    async def _send_changes(self, listener: ChangeListener, messages: dict[str, dict[str, Any]]) -> None:
        """Send new changes that the caller may see, if this connection has the stream."""
        server, session_id = self._peer.server, self._session.pk
        known = {subject: listener.known[subject] for subject in messages}
        unsent = await server.rows.run(session_streams.undelivered, session_id, known)
        visible = await visible_changes(server, self._peer.principal, unsent, self._watched)
        # More changes may become unsent now, if a connection comes back for those that it missed.
        # They wait for the next turn, because their visibility is not checked yet.
        known_unsent = {subject: known[subject] for subject in unsent}
        tell = partial(
            session_streams.claim_events,
            session_id,
            self._id,
            server.identity.boot_id,
            known_unsent,
            skipped=unsent - visible,
        )
        events = await server.rows.run(tell)
        for number, (subject, seq) in enumerate(events):
            # Several subjects may belong to one list, whose notification is sent once, with the
            # last number.
            if all(messages[later] != messages[subject] for later, _ in events[number + 1 :]):
                await self._peer.response.event(messages[subject], event_id=EventId(None, seq))

    async def _wait(self, listener: ChangeListener, heartbeat: Heartbeat, seconds: float) -> None:
        """Wait for a change, for at most `seconds`.

        Heartbeats and keep-alives are sent during the wait. They also count as signs of life of the
        session.
        """
        until = time.monotonic() + seconds
        while not listener.ended and (remaining_seconds := until - time.monotonic()) > 0:
            if not heartbeat.wait and (beat := await heartbeat.take()) is not None:
                # Sent without an id, because a missed heartbeat is not repeated.
                await self._peer.response.event(beat)
            if not self._seconds_to_keep_alive:
                await self._peer.response.keep_alive()
            await self._touch_session()
            try:
                async with asyncio.timeout(min(self._seconds_to_keep_alive, heartbeat.wait, remaining_seconds)):
                    await listener.next()
            except TimeoutError:
                continue
            await wait_for_burst(listener)
            return

    @property
    def _seconds_to_keep_alive(self) -> float:
        """Seconds until a keep-alive is due."""
        keep_alive: float = settings.KEEP_ALIVE
        return max(0.0, keep_alive - self._peer.response.silent_seconds)

    async def _touch_session(self) -> None:
        if time.monotonic() - self._touched_at >= settings.KEEP_ALIVE:
            self._touched_at = time.monotonic()
            await self._peer.server.rows.run(sessions.touch, self._session.pk)

    @property
    def _primes(self) -> bool:
        return LEGACY[self._session.protocol_version].primes_streams


async def serve(peer: HTTPPeer, session: Session, *, seen: int | None = None) -> None:
    """Serve a GET of `session`. `seen` is set if it resumes the stream."""
    admission = peer.server.admission
    if (refusal := admission.refuse_listener(peer.principal, None)) is not None:
        await peer.response.reject(refusal)
        return
    stream = GetStream(peer, session)
    with admission.listeners.hold(peer.principal, stream):
        await stream.run(seen)
