"""`tools/call`: from its checks through its row to its answer, as plain JSON or as an event stream.

Plain JSON while the call is quick and has nothing to tell; an event stream from its first notification or after
`SSE_AFTER` on. A client that leaves cancels its call; one whose call was cancelled by others is told so. Where the call
asks for input, or becomes a task, the response is over, and the row is not. Refuses to leave a row behind for what is
refused, or one that works on when it ends early.
Source: 2026-07-28 server/tools, basic/patterns/progress, streamable-http "Cancellation".
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mcp_app.conf import settings
from mcp_app.lifecycle import observation, publishing, transitions
from mcp_app.lifecycle.audit import SYSTEM, Actor
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.lifecycle.observation import Observed
from mcp_app.models import Request
from mcp_app.protocol import results
from mcp_app.protocol.errors import Rejection, fail
from mcp_app.protocol.requests import CallTool, read_call_tool
from mcp_app.protocol.tasks import Task
from mcp_app.states import Cause, Status
from mcp_app.transport import call_admission, call_rounds, failures
from mcp_app.transport.admission import unavailable
from mcp_app.transport.call_admission import Asked, Outcome
from mcp_app.transport.call_notifications import CallNotifications
from mcp_app.transport.call_rounds import Round
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.handover import Handover, created
from mcp_app.transport.heartbeats import Heartbeat
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.tail import RowGoneError, Watcher
from mcp_app.transport.threads import SilentDatabaseError

logger = logging.getLogger(__name__)

BROKER_UNREACHABLE = "The task queue is not reachable; try again in a moment."
FIRST_EVENT = 1
"""The number that a new row's event has."""
LOOK_SECONDS = 0.01
LONGEST_LOOK_SECONDS = 0.5
"""How often a client's leaving looks whether its call is stored, at first and later: it is not to wait for a broker
that hangs, and a thousand who left a database that hangs are not to keep the event loop."""


class CallStream:
    """One call and the client that waits for it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._began_at = time.monotonic()
        self._incoming: Asked | None = None
        self._admitting: asyncio.Future[Outcome] | None = None
        self._refused: Exception | None = None
        """Why its client was refused while the row may still be stored."""
        self._ended = False

    async def run(self, call: CallTool) -> None:
        """Serve the call. However this ends, its work has ended or is asked to."""
        try:
            await self._serve(call)
        except BaseException as error:
            await self._give_up(self._refused or error)
            raise

    async def cancel_for_shutdown(self) -> None:
        request = await self._stored()
        if request is not None and not self._ended:
            await self._cancel(request, Cause.SHUTDOWN, SYSTEM, "the server process is shutting down")

    async def _serve(self, call: CallTool) -> None:
        server = self._exchange.server
        self._call = call
        self._told = CallNotifications(self._exchange.route)
        await server.upkeep.vouch()
        asked = self._incoming = Asked(call, self._exchange)
        # Watched before it is there: it is published as soon as it is stored, and the answer may come at once.
        self._watcher = server.tail.watch(
            asked.id, event_seq=FIRST_EVENT, wants_events=self._told.wanted, is_stored=False
        )
        try:
            self._admitting = server.calls.start_together(
                call_admission.admit_and_publish, asked, server.admission.company
            )
            admitted = await self._admitted(asked, self._admitting)
            if isinstance(admitted, Rejection):
                await self._exchange.reject(admitted)
            elif isinstance(admitted, dict):
                await self._exchange.complete(admitted)
            elif admitted is not None:
                self._let_go(call, admitted)
                await self._wait_for(admitted)
        except RowGoneError as error:
            self._ended = True
            await self._exchange.reject(failures.explain(error, self._exchange.route.request_id))
        finally:
            self._watcher.close()

    async def _admitted(self, asked: Asked, admitting: "asyncio.Future[Outcome]") -> Outcome | None:
        """What became of the call; None where it was refused, since the database did not answer in time."""
        while not admitting.done():
            limit = (
                self._began_at + settings.DATABASE_TIMEOUT
                if asked.row is None
                else asked.sent_at + settings.PUBLISH_TIMEOUT
            )
            if (left := limit - time.monotonic()) > 0:
                await asyncio.wait([admitting], timeout=min(left, settings.PUBLISH_TIMEOUT))
            elif asked.row is not None:
                return await self._unpublished(asked.row)
            else:
                self._refused = SilentDatabaseError()
                await self._exchange.reject(failures.explain(self._refused, self._exchange.route.request_id))
                await self._give_up(self._refused)
                return None
        try:
            return admitting.result()
        except publishing.BrokerUnavailableError:
            return self._unavailable()

    async def _unpublished(self, request: Request) -> Request | Rejection:
        """Close the row: the broker did not take its message in time."""
        error = {"cause": "broker", "message": "the broker did not answer in time"}
        close = partial(transitions.finish, request.pk, Status.FAILED, error=error)
        # A row that cannot be closed any more was claimed: the message did arrive.
        return request if await self._exchange.server.rows.run(close) is None else self._unavailable()

    def _unavailable(self) -> Rejection:
        self._ended = True
        return unavailable(BROKER_UNREACHABLE, self._exchange.route.request_id)

    def _let_go(self, call: CallTool, request: Request) -> None:
        """Keep nothing large while the call is waited for, maybe for an hour: what counts is in the row.

        It is emptied, as everything that still holds the message has these very objects.
        """
        del request.arguments, request.originals
        call.arguments.clear()
        self._exchange.route.params.clear()

    async def _wait_for(self, request: Request) -> None:
        server, told, watcher = self._exchange.server, self._told, self._watcher
        watcher.is_stored = True
        if watcher.request_id != request.pk:  # the call comes back with answers: its row was there before
            watcher.close()
            watcher = self._watcher = server.tail.watch(
                request.pk, event_seq=request.event_seq, wants_events=told.wanted, is_stored=True
            )
            server.tail.look({request.pk})
        handover = Handover(self._exchange, request, self._began_at)
        with server.heartbeats.of(request.pk, since=self._began_at, wanted=told.wants_heartbeat) as heartbeat:
            await self._follow(watcher, told, heartbeat, handover)

    async def _follow(
        self, watcher: Watcher, told: CallNotifications, heartbeat: Heartbeat, handover: Handover
    ) -> None:
        while True:
            if not handover.wait and (task := await handover.take()) is not None:
                await self._hand_over(task)
                return
            if not heartbeat.wait and (beat := await heartbeat.take()) is not None:
                await self._notify(beat)
            observed = await self._next(watcher, min(heartbeat.wait, handover.wait))
            if observed is None:
                await self._break_silence()
                continue
            if await self._tell(observed, told):
                return

    async def _tell(self, observed: Observed, told: CallNotifications) -> bool:
        """Send what moved; whether that was the end."""
        for message in told.messages(observed.events):
            await self._notify(message)
        if observed.questions is not None:
            return await self._ask(observed, observed.questions)
        if observed.result is None:
            return False
        await self._answer(observed)
        return True

    async def _next(self, watcher: Watcher, wait: float) -> Observed | None:
        """What moved; None when the client must hear something first, or within `wait` seconds."""
        wait = min(self._patience(), wait)
        try:
            async with asyncio.timeout(wait if wait < math.inf else None):
                return await watcher.next()
        except TimeoutError:
            return None

    def _patience(self) -> float:
        """Seconds until the client must hear something; infinite for a client that takes no event stream."""
        patience: float
        if self._exchange.response.started:
            patience = settings.KEEP_ALIVE - self._exchange.response.silent_seconds
        elif self._exchange.route.accept.event_stream:
            patience = self._began_at + settings.SSE_AFTER - time.monotonic()
        else:
            return math.inf
        return max(0.0, patience)

    async def _notify(self, message: dict[str, Any]) -> None:
        await self._stream()
        await self._exchange.response.event(message)

    async def _break_silence(self) -> None:
        """Unless it was a heartbeat or the hand-over that was waited for."""
        if self._patience():
            return
        if self._exchange.response.started:
            await self._exchange.response.keep_alive()
        else:
            await self._stream()

    async def _stream(self) -> None:
        """Commit to an event stream."""
        if not self._exchange.response.started:
            await self._exchange.response.start_events()

    async def _answer(self, observed: Observed) -> None:
        assert observed.result is not None, "an ended request has a result"
        if observed.error is not None:
            await self._reject(fail(**observed.error, request_id=self._exchange.route.request_id), observed)
        else:
            await self._complete(results.call_tool(observed.result, self._exchange.server_info()), observed)
        self._ended = True
        self._exchange.server.admission.crowd.answered(time.monotonic() - self._began_at)
        self._exchange.server.tail.delivered(observed.request_id)

    async def _complete(self, result: dict[str, Any], observed: Observed) -> None:
        """Send the result of a call that was observed to have ended."""
        await self._exchange.complete(result)

    async def _reject(self, rejection: Rejection, observed: Observed) -> None:
        """Send the error that a call was observed to have ended with."""
        await self._exchange.reject(rejection)

    async def _ask(self, observed: Observed, questions: Mapping[str, Any]) -> bool:
        """Tell the client what it is asked; whether that was the end.

        It is the end of this request, not of its row: that waits for the client to come back with answers.
        """
        asked = Round(observed.request_id, observed.input_round)
        arguments = await self._exchange.server.rows.insist(observation.arguments, observed.request_id)
        call = replace(self._call, arguments=arguments)
        await self._exchange.complete(call_rounds.required(call, self._exchange, asked, questions))
        self._ended = True
        return True

    async def _hand_over(self, task: Task) -> None:
        """The end of this request; its row goes on without it, whatever becomes of this connection."""
        self._ended = True
        await self._exchange.complete(created(task, self._exchange))

    async def _stored(self) -> Request | None:
        """This call's row, if it has one: also when it is only just being stored."""
        asked, admitting = self._incoming, self._admitting
        if asked is None or admitting is None:
            return None
        wait = LOOK_SECONDS
        while asked.row is None and not admitting.done():
            await asyncio.wait([admitting], timeout=wait)
            wait = min(2 * wait, LONGEST_LOOK_SECONDS)
        if admitting.done() and not admitting.cancelled():
            admitting.exception()  # it was told, or nobody is there who could be
        return asked.row

    async def _give_up(self, error: BaseException) -> None:
        """Nobody waits for this call any more: ask for its work to stop."""
        if self._incoming is not None:
            self._incoming.is_given_up = True
        request = await self._stored()
        if request is None or self._ended:
            return
        if isinstance(error, PeerGoneError):
            actor = Actor(self._exchange.principal.label, self._exchange.remote_address)
            await self._cancel(request, Cause.DISCONNECT, actor, str(error))
        elif isinstance(error, asyncio.CancelledError):
            cause, actor = self._exchange.interruption()
            await self._cancel(request, cause, actor, self._exchange.reason)
        else:
            await self._cancel(request, Cause.LOST_SERVER, SYSTEM, "the server failed while the client waited")

    async def _cancel(self, request: Request, cause: Cause, actor: Actor, reason: str) -> None:
        await self._exchange.server.cancellations.cancel(Ask(request.pk, cause, actor, reason))


async def serve(exchange: Exchange, stream_of: Callable[[Exchange], CallStream] = CallStream) -> None:
    """Serve one `tools/call`, by the stream that is made for it."""
    call = read_call_tool(exchange.route)
    if isinstance(call, Rejection):
        await exchange.reject(call)
        return
    admission = exchange.server.admission
    refusal = admission.refuse_call(exchange.principal, exchange.route.request_id)
    if refusal is not None:
        await exchange.reject(refusal)
        return
    stream = stream_of(exchange)
    with admission.calls.hold(exchange.principal, stream):
        await stream.run(call)
