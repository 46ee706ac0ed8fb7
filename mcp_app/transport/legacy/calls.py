"""`tools/call` in a session: a client that is cut off comes back for the rest, and cancels by saying so.

Its events carry ids, and what a lost connection did not carry is replayed from the stored rows, once and in order. Ends
without a response what its client cancelled. Without a session nothing could be resumed: there a disconnect cancels as
in the modern era, unless `SESSIONLESS_DISCONNECT_CANCELS` is off.
Source: 2025-11-25 basic/transports "Resumability and Redelivery", basic/utilities/cancellation.
"""

import asyncio
import math
import time
import uuid
from functools import partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from mcp_app.conf import settings
from mcp_app.lifecycle import followers
from mcp_app.lifecycle.observation import Observed, is_answered
from mcp_app.models import Request
from mcp_app.protocol import legacy_sse
from mcp_app.protocol.accept import Accept
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, refuse
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.legacy_sse import EventId
from mcp_app.protocol.metadata import RequestMetadata
from mcp_app.protocol.revisions import LEGACY
from mcp_app.states import Cause, EventKind, Status
from mcp_app.transport import call_stream
from mcp_app.transport.call_notifications import CallNotifications
from mcp_app.transport.call_stream import CallStream
from mcp_app.transport.handover import Handover
from mcp_app.transport.legacy.http_exchange import HTTPExchange, Peer
from mcp_app.transport.legacy.questions import AskingCall
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.tail import TakenOverError, Watcher

LEAVING_SECONDS = 30.0
"""How long a client that left is tried to be noted, in a database that is away: nobody else sees that it did."""


class SessionlessCall(CallStream):
    """One call of a client that keeps no session."""

    def __init__(self, exchange: HTTPExchange) -> None:
        super().__init__(exchange)
        self._exchange: HTTPExchange = exchange

    async def _give_up(self, error: BaseException) -> None:
        if settings.SESSIONLESS_DISCONNECT_CANCELS or not self._has_left(error):
            await super()._give_up(error)
            return
        request = await self._stored()
        if request is not None and not self._ended:
            self._ended = True
            await self._exchange.server.rows.run(followers.let_go, request.pk)

    def _has_left(self, error: BaseException) -> bool:
        return isinstance(error, PeerGoneError) or self._exchange.peer.disconnected


class SessionCall(AskingCall):
    """One call of a session, and the connection that its client follows it on."""

    def __init__(self, exchange: HTTPExchange) -> None:
        super().__init__(exchange)
        self._exchange: HTTPExchange = exchange
        self._follower: UUID | None = None
        self._leaving: asyncio.Timeout | None = None
        self._carries_ids = False
        self._cut_at = math.inf

    async def cancel_for_shutdown(self) -> None:
        """Cut the connection where the client can come back to another process; else as in the modern era."""
        if self._leaving is not None and self._is_resumable:
            self._leaving.reschedule(asyncio.get_running_loop().time())
        else:
            await super().cancel_for_shutdown()

    @property
    def _is_resumable(self) -> bool:
        accepts = self._exchange.route.accept.event_stream
        return self._exchange.resumable and accepts and (self._carries_ids or self._exchange.revision.primes_streams)

    async def _wait_for(self, request: Request) -> None:
        self._first = EventId(request.pk, request.event_seq)
        await super()._wait_for(request)

    async def _follow(self, *args: Any) -> None:
        # Older clients are not primed: one that has had no event could not come back.
        if settings.CUT_AFTER is not None and self._is_resumable and self._exchange.revision.primes_streams:
            self._cut_at = time.monotonic() + settings.CUT_AFTER
        try:
            async with asyncio.timeout(None) as self._leaving:
                await super()._follow(*args)
        except TimeoutError:
            await self._cut()
        except TakenOverError:
            self._ended = True
            await self._exchange.end_without_response()
        finally:
            self._leaving = None

    async def _next(self, watcher: Watcher, wait: float) -> Observed | None:
        """As in the modern era. Raises TimeoutError when the connection has been held for long enough."""
        observed = await super()._next(watcher, min(wait, max(0.0, self._cut_at - time.monotonic())))
        if observed is None and time.monotonic() >= self._cut_at:
            raise TimeoutError
        return observed

    async def _tell(self, observed: Observed, told: CallNotifications) -> bool:
        if observed.follower != self._follower:
            raise TakenOverError
        if observed.cancel_cause == Cause.CLIENT and observed.status != Status.COMPLETED:
            self._ended = True
            if self._heard:
                await self._withdraw(observed)
            await self._exchange.end_without_response()
            return True
        numbered = zip(observed.seqs, observed.events, strict=True)
        messages = [(seq, message) for seq, event in numbered for message in told.messages([event])]
        messages += await self._asked(observed)
        for seq, message in sorted(messages, key=lambda each: each[0]):
            await self._send(message, EventId(observed.request_id, seq))
        if observed.result is None:
            return False
        await self._answer(observed)
        return True

    async def _send(self, message: dict[str, Any], event_id: EventId) -> None:
        if not self._exchange.resumable:
            await super()._send(message, event_id)
            return
        await self._stream()
        self._carries_ids = True
        await self._exchange.http.frame(legacy_sse.event(message, event_id))

    async def _stream(self) -> None:
        response = self._exchange.http
        if response.started:
            return
        await super()._stream()
        if self._exchange.resumable and self._exchange.revision.primes_streams:
            self._carries_ids = True
            await response.frame(legacy_sse.prime(self._first, settings.RETRY_MS))

    async def _complete(self, result: dict[str, Any], observed: Observed) -> None:
        await self._exchange.complete(result, EventId(observed.request_id, observed.event_seq))

    async def _reject(self, rejection: Rejection, observed: Observed) -> None:
        await self._exchange.reject(rejection, EventId(observed.request_id, observed.event_seq))

    async def _cut(self) -> None:
        """End the connection, not the call, and say when to come back."""
        await self._stream()
        if self._exchange.revision.primes_streams:
            await self._exchange.http.frame(legacy_sse.retry(settings.RETRY_MS))
        await self._leave()
        await self._exchange.http.end()

    async def _give_up(self, error: BaseException) -> None:
        if isinstance(error, PeerGoneError | asyncio.CancelledError):
            await self._leave()
        else:
            await super()._give_up(error)

    async def _leave(self) -> None:
        request = await self._stored()
        if request is not None and not self._ended:
            self._ended = True
            leave = partial(followers.leave, request.pk, self._follower)
            await self._exchange.server.rows.insist(leave, seconds=LEAVING_SECONDS)


class ResumedCall(SessionCall):
    """The same on a connection that came back for it."""

    def __init__(self, exchange: HTTPExchange) -> None:
        super().__init__(exchange)
        self._taken: Request | None = None
        """Its row, once this connection is the one that the call is followed on."""

    async def resume(self, request_id: UUID, seen: int) -> None:
        """Take the call over, send what the client has not `seen` and follow it from there."""
        server = self._exchange.server
        self._follower = uuid.uuid4()
        self._first = EventId(request_id, seen)
        self._heard = seen
        self._is_asked = True
        try:
            await server.upkeep.vouch()
            take_over = partial(followers.take_over, request_id, self._follower, server.identity.boot_id)
            leave = partial(followers.leave, request_id, self._follower)
            self._taken = await server.rows.run_or_undo(take_over, leave)
            await self._replay(self._taken, seen)
        except BaseException as error:
            await self._give_up(error)
            raise

    async def _stored(self) -> Request | None:
        return self._taken

    async def _give_up(self, error: BaseException) -> None:
        """Where the database is away the call goes on: its client comes back once more."""
        if isinstance(error, OperationalError | InterfaceError):
            await self._leave()
        else:
            await super()._give_up(error)

    async def _replay(self, row: Request, seen: int) -> None:
        told = CallNotifications(self._exchange.route)
        server = self._exchange.server
        if (progress := await server.rows.run(followers.progress_until, row.pk, seen)) is not None:
            list(told.messages([(EventKind.PROGRESS, progress)]))
        await self._exchange.http.start_events()
        if is_answered(row) and seen >= row.event_seq:
            self._ended = True
            await self._exchange.http.end()
            return
        self._carries_ids = True
        watcher = server.tail.watch(row.pk, event_seq=seen, wants_events=told.wanted, is_stored=True)
        server.tail.look({row.pk})
        try:
            with server.heartbeats.of(row.pk, since=self._began_at, wanted=told.wants_heartbeat) as heartbeat:
                await self._follow(watcher, told, heartbeat, Handover(self._exchange, row, self._began_at))
        finally:
            watcher.close()


async def serve(exchange: HTTPExchange) -> None:
    """Serve one `tools/call`."""
    stream = SessionlessCall if exchange.session_id is None else SessionCall
    await call_stream.serve(exchange, lambda _: stream(exchange))


async def resume(peer: Peer, session_id: UUID, request_id: UUID, seen: int) -> None:
    """Serve the rest of a call's stream, after its event number `seen`."""
    server = peer.server
    row = await server.rows.run(followers.call_of, session_id, request_id)
    if row is None:
        await peer.response.reject(unknown_event())
        return
    refusal = server.admission.refuse_call(peer.principal, None)
    if refusal is not None:
        await peer.response.reject(refusal)
        return
    exchange = HTTPExchange.of(peer, _route(row), LEGACY[row.protocol_version], None)
    exchange.resumable = True
    call = ResumedCall(exchange)
    with server.admission.calls.hold(peer.principal, call):
        await call.resume(row.pk, seen)


def unknown_event() -> Rejection:
    """400: the session has no stream with this event."""
    return refuse(INVALID_REQUEST, "The header Last-Event-ID names no event of this session.")


def _route(row: Request) -> Route:
    metadata = RequestMetadata(
        protocol_version=row.protocol_version,
        client_capabilities=row.client_capabilities,
        client_info=row.client_info or None,
        log_level=row.log_level or None,
        progress_token=row.progress_token,
        trace_context={},
    )
    return Route(row.jsonrpc_id, row.method, {}, metadata, Accept(json=False, event_stream=True))
