"""Serves `tools/call`: checks the call, stores it, follows its row, and answers.

Theory of operation
-------------------

1. The row watcher watches the id of the new request before it is stored, because the result may
   come immediately.
2. `checks.admit_and_publish` runs in a thread: it checks the call, stores its row and publishes its
   Celery message. If the database or the broker does not answer in time, the client is refused, and
   a row that is stored later is cancelled.
3. `_send_until_over` waits for the row to move and sends what has happened. The response is plain
   JSON if the call is quick and has nothing to notify. It becomes an event stream with the first
   notification, or after `SSE_AFTER`.
4. The caller is confirmed every `CONFIRM_AFTER` seconds and before the result. If the site no
   longer accepts them, the call is cancelled.
5. If the response ends early, `_give_up` cancels the call: its client has left, the client
   cancelled it, or the server process shuts down.

How a client is asked for input, and whether its call goes on without the client, differs between
the eras of MCP. The call's `CallDialogue` decides that.

Source: 2026-07-28 server/tools, basic/patterns/progress, streamable-http "Cancellation".
"""

import asyncio
import logging
import math
import time
from contextlib import closing, nullcontext
from functools import partial
from uuid import UUID

from mcp_app import databases
from mcp_app.catalogue.registry import registered_tools
from mcp_app.conf import settings
from mcp_app.lifecycle import publishing, task_handles
from mcp_app.lifecycle.audit.attempts import SYSTEM, Actor
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.observation import Observed
from mcp_app.models import Request
from mcp_app.protocol import tasks
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.metadata import has_capabilities
from mcp_app.protocol.requests import CallTool, read_call_tool
from mcp_app.protocol.tasks import Task
from mcp_app.states import Cause, Status, TaskMode
from mcp_app.transport.calls import checks
from mcp_app.transport.calls.checks import AdmissionOutcome, IncomingCall
from mcp_app.transport.calls.dialogue import CallDialogue
from mcp_app.transport.process.admission import unavailable
from mcp_app.transport.process.heartbeats import Heartbeat
from mcp_app.transport.process.threads import RETRY_SECONDS, SilentDatabaseError
from mcp_app.transport.serving import failures
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.serving.responder import PeerGoneError
from mcp_app.transport.watching.row_watcher import RequestWaiter, RowGoneError, TakenOverError

logger = logging.getLogger(__name__)

BROKER_UNREACHABLE = "The task queue cannot be reached; try again in a moment."
FIRST_EVENT = 1
"""The number of a new row's event."""
MIN_CHECK_SECONDS = 0.01
MAX_CHECK_SECONDS = 0.5
"""Delays between checks whether the call of a client that left has been stored. The first is short
because the client must not wait for a broker that hangs; it grows so that a thousand such calls
do not occupy the event loop."""


class TaskHandover:
    """Decides when a call becomes a task (extension io.modelcontextprotocol/tasks).

    The server decides by the tool's `TaskMode`, and only if the client has declared the extension
    with this request.
    """

    def __init__(self, exchange: Exchange, request: Request, began_at: float) -> None:
        self._exchange = exchange
        self._request = request
        self._due_at = math.inf
        if request.task_handle is not None:
            self._due_at = -math.inf
        elif not exchange.makes_tasks or (tool := registered_tools().get(request.tool)) is None:
            return
        elif tool.task == TaskMode.WHEN_SLOW and has_capabilities(
            tasks.CAPABILITY, exchange.route.metadata.client_capabilities
        ):
            self._due_at = began_at + (settings.TASK_AFTER if tool.task_after is None else tool.task_after)

    @property
    def wait(self) -> float:
        """Seconds until the call becomes a task; infinite if it never does."""
        return max(0.0, self._due_at - time.monotonic())

    async def take(self) -> Task | None:
        """Make the call a task and return it.

        Returns `None` if the call cannot become a task now, for example while the database is away.
        """
        self._due_at = math.inf
        try:
            return await self._exchange.server.rows.run(_hand_over, self._request)
        except databases.AWAY as error:
            logger.error("request %s cannot become a task yet: %s", self._request.pk, str(error).strip())
            self._due_at = time.monotonic() + RETRY_SECONDS
            return None


def _hand_over(request: Request) -> Task | None:
    row = task_handles.hand_over(request.pk)
    return None if row is None else task_handles.shown(row)


class CallStream:
    """One call and the client that waits for it.

    `run` serves a new call, and `resume` one whose client was cut off.
    """

    def __init__(self, exchange: Exchange, dialogue: CallDialogue) -> None:
        self._exchange = exchange
        self._dialogue = dialogue
        self._began_at = time.monotonic()
        self._incoming: IncomingCall | None = None
        self._admitting: asyncio.Future[AdmissionOutcome] | None = None
        self._refused: Exception | None = None
        """The error sent to the client although the row may still be stored."""
        self._row: Request | None = None
        """The row of a call that is resumed."""
        self._connection: asyncio.Timeout | None = None
        """Expires when the response must be cut because the server process ends."""
        self._is_over = False
        """Whether nothing has to be cancelled when the response ends."""

    async def run(self, call: CallTool) -> None:
        """Admit the call and follow it to its result.

        If the response ends early, cancel the call.
        """
        server = self._exchange.server
        try:
            await server.upkeep.ensure_alive()
            incoming = self._incoming = IncomingCall(call, self._exchange)
            # Watch it before it is stored: it is published at once, and the result may come
            # immediately.
            with closing(self._watch(incoming.id, FIRST_EVENT, is_stored=False)) as watcher:
                request = await self._admit(incoming)
                if request is not None and request.pk == incoming.id:
                    watcher.is_stored = True
                    await self._send_until_over(request, watcher)
            if request is not None and request.pk != incoming.id:  # it answers the questions of an earlier call
                await self._follow(request, request.event_seq)
        except BaseException as error:
            await self._give_up(self._refused or error)
            raise

    async def resume(self, request: Request, seen: int) -> None:
        """Send the events after `seen` to a client that was cut off, and follow the call."""
        self._row = request
        try:
            await self._dialogue.start_stream()
            await self._follow(request, seen)
        except BaseException as error:
            await self._give_up(error)
            raise

    async def cancel_for_shutdown(self) -> None:
        """Cancel the call.

        If its client can come back to another process, only cut the connection.
        """
        if self._connection is not None and self._dialogue.is_resumable:
            self._connection.reschedule(asyncio.get_running_loop().time())
            return
        request = await self._stored()
        if request is not None and not self._is_over:
            await self._cancel(request, Cause.SHUTDOWN, SYSTEM, "the server process is shutting down")

    def _watch(self, request_id: UUID, event_seq: int, *, is_stored: bool) -> RequestWaiter:
        wants_events = self._dialogue.notifications.wanted
        return self._exchange.server.row_watcher.watch(
            request_id, event_seq=event_seq, wants_events=wants_events, is_stored=is_stored
        )

    async def _admit(self, incoming: IncomingCall) -> Request | None:
        """Store and publish the call. Return its row, or `None` if it was answered at once."""
        outcome = await self._outcome(incoming)
        if isinstance(outcome, Rejection):
            await self._exchange.reject(outcome)
        elif isinstance(outcome, dict):
            await self._exchange.complete(outcome)
        elif outcome is not None:
            # The call may take an hour: free its arguments. The parsed message holds these very
            # objects.
            del outcome.arguments, outcome.unredacted
            incoming.call.arguments.clear()
            self._exchange.route.params.clear()
            return outcome
        return None

    async def _outcome(self, incoming: IncomingCall) -> AdmissionOutcome | None:
        """Return the call's outcome, or `None` if the database did not answer in time."""
        calls = self._exchange.server.calls
        admitting = self._admitting = calls.start_together(checks.admit_and_publish, incoming)
        while not admitting.done():
            limit = (
                self._began_at + settings.DATABASE_TIMEOUT
                if incoming.row is None
                else incoming.publishing_since + settings.PUBLISH_TIMEOUT
            )
            if (left := limit - time.monotonic()) > 0:
                await asyncio.wait([admitting], timeout=min(left, settings.PUBLISH_TIMEOUT))
            elif incoming.row is not None:
                return await self._unpublished(incoming.row)
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
        """Close the row because the broker did not accept its message in time."""
        error = {"cause": "broker", "message": "the broker did not answer in time"}
        close = partial(transitions.finish, request.pk, Status.FAILED, error=error)
        # If the row cannot be closed, a worker has claimed it, so the message did arrive.
        return request if await self._exchange.server.rows.run(close) is None else self._unavailable()

    def _unavailable(self) -> Rejection:
        self._is_over = True
        return unavailable(BROKER_UNREACHABLE, self._exchange.route.request_id)

    async def _follow(self, request: Request, seen: int) -> None:
        """Follow a call that was stored earlier, from its event `seen`."""
        with closing(self._watch(request.pk, seen, is_stored=True)) as watcher:
            self._exchange.server.row_watcher.wake({request.pk})
            await self._send_until_over(request, watcher)

    async def _send_until_over(self, request: Request, watcher: RequestWaiter) -> None:
        """Send notifications and the result until the response is over."""
        heartbeats = self._exchange.server.heartbeats
        is_wanted = self._dialogue.notifications.wants_heartbeat
        beats = heartbeats.of(request.pk, since=self._began_at) if is_wanted else nullcontext()
        handover = TaskHandover(self._exchange, request, self._began_at)
        self._connection = asyncio.timeout(None)
        try:
            async with self._connection:
                with self._dialogue.following(request), beats as heartbeat:
                    while not self._is_over:
                        await self._send_next(request, watcher, heartbeat, handover)
        except TimeoutError:
            if not self._connection.expired():
                raise
            await self._dialogue.cut(request)
            self._is_over = True
        except TakenOverError:
            self._is_over = True
            await self._exchange.end_without_response()
        except RowGoneError as error:
            self._is_over = True
            await self._exchange.reject(failures.explain(error, self._exchange.route.request_id))
        finally:
            self._connection = None

    async def _send_next(
        self, request: Request, watcher: RequestWaiter, heartbeat: Heartbeat | None, handover: TaskHandover
    ) -> None:
        """Send the messages that are due, or wait until the call moves and send its events."""
        exchange, dialogue = self._exchange, self._dialogue
        if exchange.caller.is_due and await self._end_if_caller_is_lost():
            return
        if not handover.wait:
            if await self._end_if_caller_is_lost():
                return
            if (task := await handover.take()) is not None:
                self._is_over = True  # the call goes on even if this connection fails
                await exchange.complete(tasks.create_task_result(task, exchange.server_info()))
                return
        if heartbeat is not None and not heartbeat.wait and (beat := await heartbeat.take()) is not None:
            await dialogue.start_stream()
            await exchange.response.event(beat)
        if (left := dialogue.cut_at - time.monotonic()) <= 0:
            await dialogue.cut(request)
            self._is_over = True
            return
        wait = min(left, handover.wait, exchange.caller.seconds_to_wait)
        if heartbeat is not None:
            wait = min(wait, heartbeat.wait)
        observed = await self._next(watcher, wait)
        if observed is None:
            await self._break_silence()
            return
        if (observed.result is not None or observed.questions is not None) and await self._end_if_caller_is_lost():
            return
        self._is_over = await dialogue.deliver(observed)

    async def _end_if_caller_is_lost(self) -> bool:
        """Confirm the caller.

        If the site no longer accepts them, cancel the call, reject it, and return `True`.
        """
        lost = await self._exchange.confirm_caller()
        if lost is None:
            return False
        if (request := await self._stored()) is not None:
            await self._cancel(request, Cause.REVOKED, SYSTEM, lost.reason)
        self._is_over = True
        await self._exchange.reject(lost.rejection)
        return True

    async def _next(self, watcher: RequestWaiter, wait: float) -> Observed | None:
        """Return the next observation.

        Returns `None` after `wait` seconds, or earlier if a keep-alive or the event stream is due.
        """
        wait = min(self._patience(), wait)
        try:
            async with asyncio.timeout(wait if wait < math.inf else None):
                return await watcher.next()
        except TimeoutError:
            return None

    def _patience(self) -> float:
        """Seconds until a message must be sent; infinite if the client accepts no event stream."""
        patience: float
        if self._exchange.response.started:
            patience = settings.KEEP_ALIVE - self._exchange.response.silent_seconds
        elif self._exchange.route.accept.event_stream:
            patience = self._began_at + settings.SSE_AFTER - time.monotonic()
        else:
            return math.inf
        return max(0.0, patience)

    async def _break_silence(self) -> None:
        """Send a keep-alive or begin the event stream, if that is due."""
        if self._patience():
            return
        if self._exchange.response.started:
            await self._exchange.response.keep_alive()
        else:
            await self._dialogue.start_stream()

    async def _stored(self) -> Request | None:
        """Return this call's row, if it has one. Waits for a row that is being stored."""
        incoming, admitting = self._incoming, self._admitting
        if incoming is None or admitting is None:
            return self._row
        wait = MIN_CHECK_SECONDS
        while incoming.row is None and not admitting.done():
            await asyncio.wait([admitting], timeout=wait)
            wait = min(2 * wait, MAX_CHECK_SECONDS)
        if admitting.done() and not admitting.cancelled():
            admitting.exception()  # marks it as retrieved: it was reported, or the client has left
        return incoming.row

    async def _give_up(self, error: BaseException) -> None:
        """Cancel a call whose response has ended early, unless it may go on without its client."""
        if self._incoming is not None:
            self._incoming.is_given_up = True
        request = await self._stored()
        if request is None or self._is_over:
            return
        if await self._dialogue.detach(request, error):
            self._is_over = True
            return
        if isinstance(error, PeerGoneError):
            await self._cancel(request, Cause.DISCONNECT, self._exchange.actor, str(error))
        elif isinstance(error, asyncio.CancelledError):
            interruption = self._exchange.interruption
            actor = SYSTEM if interruption.cause == Cause.SHUTDOWN else self._exchange.actor
            await self._cancel(request, interruption.cause, actor, interruption.reason)
        else:
            await self._cancel(request, Cause.LOST_SERVER, SYSTEM, "the server failed while the client waited")
        await self._dialogue.take_back(request)

    async def _cancel(self, request: Request, cause: Cause, actor: Actor, reason: str) -> None:
        await self._exchange.server.cancellations.cancel(CancellationRequest(request.pk, cause, actor, reason))


async def serve(exchange: Exchange, dialogue: CallDialogue) -> None:
    """Serve one `tools/call`."""
    call = read_call_tool(exchange.route)
    if isinstance(call, Rejection):
        await exchange.reject(call)
        return
    admission = exchange.server.admission
    refusal = admission.refuse_call(exchange.principal, exchange.route.request_id)
    if refusal is not None:
        await exchange.reject(refusal)
        return
    stream = CallStream(exchange, dialogue)
    with admission.calls.hold(exchange.principal, stream):
        await stream.run(call)
