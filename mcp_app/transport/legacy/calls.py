"""`tools/call` in the legacy era.

In a session, the client is asked for input on the stream of the call, and answers by other requests
meanwhile. Over HTTP the events of the stream have ids, so a client that loses the connection can
come back for the rest:

    1. The client reconnects with the id of the last event that it received.
    2. The new connection becomes the call's follower. An older one ends without a response.
    3. The events after that id are read from the stored rows and sent once, in order.

Such a client cancels by `notifications/cancelled`, and its call then ends without a response. A
call without a session cannot be resumed: a disconnect cancels it as in the modern era, unless
`SESSIONLESS_DISCONNECT_CANCELS` is off.

Source: 2025-11-25 basic/transports "Resumability and Redelivery", basic/utilities/cancellation.
"""

import asyncio
import math
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from uuid import UUID

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle.requests.observation import Observed, is_answered
from mcp_app.lifecycle.sessions import call_connections
from mcp_app.models import Request
from mcp_app.protocol import sse
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, refuse
from mcp_app.protocol.headers import Accept
from mcp_app.protocol.metadata import RequestMetadata
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import LEGACY
from mcp_app.protocol.sse import EventId
from mcp_app.states import Cause, EventKind, Status
from mcp_app.transport.calls import dialogue as call_dialogue
from mcp_app.transport.calls import stream as call_stream
from mcp_app.transport.calls.dialogue import CallNotifications, StatelessDialogue
from mcp_app.transport.calls.stream import CallStream
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.legacy.http_peer import HTTPPeer
from mcp_app.transport.legacy.questions import CallQuestions
from mcp_app.transport.serving.responder import PeerGoneError

RECORD_DISCONNECT_SECONDS = 30.0
"""How long to try to store a disconnect while the database is down. No other process knows of it.
"""


class SessionDialogue:
    """The dialogue of a call in a session, on one of the connections that follow it."""

    def __init__(self, exchange: LegacyExchange, *, follower: UUID | None = None, seen: int = 0) -> None:
        """Prepare the dialogue of one connection.

        `follower` identifies a connection that came back for the call. Its client already has the
        events up to `seen`.
        """
        self.notifications = CallNotifications(exchange.route)
        self.cut_at = math.inf
        self._exchange = exchange
        self._follower = follower
        self._questions = CallQuestions(
            exchange.server, exchange.revision, received_until=seen, is_asked=follower is not None
        )
        self._carries_ids = follower is not None
        self._first: EventId | None = None
        """The event id at which this connection begins."""

    @property
    def is_resumable(self) -> bool:
        # A client can only come back if it has received an event with an id.
        exchange = self._exchange
        may_carry_ids = exchange.resumable is not None and exchange.route.accept.event_stream
        return may_carry_ids and (self._carries_ids or exchange.revision.primes_streams)

    @contextmanager
    def following(self, request: Request) -> Iterator[None]:
        self._first = EventId(request.pk, request.event_seq)
        if settings.CUT_AFTER is not None and self.is_resumable and self._exchange.revision.primes_streams:
            self.cut_at = time.monotonic() + settings.CUT_AFTER
        with self._exchange.peer.asking(request.pk):
            yield

    async def start_stream(self) -> None:
        if self._exchange.response.started:
            return
        await self._exchange.response.start_events()
        if self._exchange.resumable is not None and self._exchange.revision.primes_streams and self._first is not None:
            self._carries_ids = True
            await self._exchange.resumable.frame(sse.prime(self._first, settings.RETRY_MS))

    async def deliver(self, observed: Observed) -> bool:
        if observed.follower != self._follower:  # the client follows the call on another connection
            await self._exchange.end_without_response()
            return True
        if observed.cancel_cause == Cause.CLIENT and observed.status != Status.COMPLETED:
            await self._withdraw(observed)
            await self._exchange.end_without_response()
            return True
        numbered = zip(observed.seqs, observed.events, strict=True)
        messages = [(seq, message) for seq, event in numbered for message in self.notifications.messages([event])]
        messages += await self._questions.pending(observed)
        for seq, message in sorted(messages, key=lambda each: each[0]):
            await self.start_stream()
            await self._exchange.response.event(message, event_id=self._event_id(observed.request_id, seq))
        if observed.result is None:
            return False
        await self._withdraw(observed)
        await call_dialogue.answer(self._exchange, observed, self._event_id(observed.request_id, observed.event_seq))
        return True

    async def detach(self, request: Request, error: BaseException) -> bool:
        has_left = isinstance(error, PeerGoneError | asyncio.CancelledError)
        # If the database is down, a client that came back once will come back again.
        comes_back = self._follower is not None and isinstance(error, databases.AWAY)
        if self._exchange.session_id is None or not (has_left or comes_back):
            return False
        await self._record_disconnect(request)
        return True

    async def take_back(self, request: Request) -> None:
        if self._exchange.interruption.cancelled:
            await self._exchange.peer.withdraw_questions(await self._questions.withdrawals(request.pk))

    async def cut(self, request: Request) -> None:
        assert self._exchange.resumable is not None, "what cannot be resumed is not cut"
        await self.start_stream()
        if self._exchange.revision.primes_streams:
            await self._exchange.resumable.frame(sse.retry(settings.RETRY_MS))
        await self._record_disconnect(request)
        await self._exchange.response.end()

    async def _withdraw(self, observed: Observed) -> None:
        """Withdraw the open questions of a call that was cancelled."""
        if observed.status != Status.CANCELLED:
            return
        for message in await self._questions.withdrawals(observed.request_id):
            await self.start_stream()
            await self._exchange.response.event(message)

    async def _record_disconnect(self, request: Request) -> None:
        leave = partial(call_connections.record_disconnect, request.pk, self._follower)
        await self._exchange.server.rows.insist(leave, seconds=RECORD_DISCONNECT_SECONDS)

    def _event_id(self, request_id: UUID, seq: int) -> EventId | None:
        if self._exchange.resumable is None:
            return None
        self._carries_ids = True
        return EventId(request_id, seq)


async def serve(exchange: LegacyExchange) -> None:
    """Serve one `tools/call`."""
    if exchange.peer.session is None:
        outlives_client = not settings.SESSIONLESS_DISCONNECT_CANCELS
        await call_stream.serve(exchange, StatelessDialogue(exchange, outlives_client=outlives_client))
    else:
        await call_stream.serve(exchange, SessionDialogue(exchange))


async def resume(peer: HTTPPeer, session_id: UUID, request_id: UUID, seen: int) -> None:
    """Serve the rest of a call's stream, after its event number `seen`."""
    server = peer.server
    row = await server.rows.run(call_connections.find_call, session_id, request_id)
    if row is None:
        await peer.response.reject(unknown_event())
        return
    refusal = server.admission.refuse_call(peer.principal, None)
    if refusal is not None:
        await peer.response.reject(refusal)
        return
    exchange = peer.exchange(_route(row), LEGACY[row.protocol_version])
    if is_answered(row) and seen >= row.event_seq:
        await exchange.end_without_response()
        return
    follower = uuid.uuid4()
    dialogue = SessionDialogue(exchange, follower=follower, seen=seen)
    stream = CallStream(exchange, dialogue)
    with server.admission.calls.hold(peer.principal, stream):
        await server.upkeep.ensure_alive()
        progress = await server.rows.run(call_connections.last_progress, row.pk, seen)
        if progress is not None:  # do not repeat progress that the client has received
            list(dialogue.notifications.messages([(EventKind.PROGRESS, progress)]))
        take_over = partial(call_connections.take_over, row.pk, follower, server.identity.boot_id)
        leave = partial(call_connections.record_disconnect, row.pk, follower)
        taken = await server.rows.run_or_undo(take_over, leave)
        await stream.resume(taken, seen)


def unknown_event() -> Rejection:
    """Return a 400: the session has no stream with this event."""
    return refuse(INVALID_REQUEST, "Last-Event-ID is not the id of an event of this session.")


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
