"""One client over stdio, from its first line to its end.

Theory of operation. `StdioConnection.run` reads one line at a time and starts a task for each
request, so requests are served side by side and lines are read in order. The form of a request
decides its era:

    1. A request that declares its version in `_meta` is modern, even after an `initialize`.
    2. Anything else belongs to the legacy session that `initialize` begins. A connection has at
       most one session.
    3. Before `initialize`, a legacy client may only send `ping`.

A line may hold a batch of legacy messages, if the revision of the session has batches.

Source: 2026-07-28 basic/transports/stdio, basic/versioning "Backward Compatibility"; 2025-11-25 and
earlier, basic/lifecycle, basic/transports "stdio".
"""

import asyncio
import logging
from typing import Final

from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.conf import DEFAULT_ENDPOINT, KIB, settings
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, refuse
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import ACCEPT_ANYTHING, classify_line
from mcp_app.protocol.jsonrpc import ClientResponse, Limits, Notification, RequestMessage
from mcp_app.protocol.legacy.inbound import LegacyMessages, Message, check_batch
from mcp_app.protocol.legacy.requests import Handshake, read_cancelled, to_route
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import ASSUMED_LEGACY, LEGACY
from mcp_app.transport import methods
from mcp_app.transport.legacy import methods as legacy_methods
from mcp_app.transport.legacy import questions
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.server import Server
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.serving.responder import PeerGoneError
from mcp_app.transport.stdio.lines import LineReader, LineWriter
from mcp_app.transport.stdio.peer import StdioPeer
from mcp_app.transport.stdio.requests import NotReadyError, OpenRequests
from mcp_app.transport.stdio.response import StdioBatch, StdioResponse

logger = logging.getLogger(__name__)

SMALL_LINE_BYTES: Final = 64 * KIB
"""A larger message is parsed in a thread instead of on the event loop."""
MAX_CONCURRENT_ANSWERS: Final = 2
"""Answers to questions that are stored at the same time."""
BEFORE_INITIALIZE: Final = frozenset({"initialize", "ping"})
NOT_INITIALIZED: Final = "Send initialize first, or declare in params._meta that the request is of MCP 2026-07-28."
NOTHING_ASKED: Final = "This response answers no request of the server; send requests and notifications."


class StdioConnection:
    """Serves one client of the endpoint with that name, by `run`.

    `caller` resolves to the client's principal once the site is ready, or raises `NotReadyError`.
    """

    def __init__(
        self,
        server: Server,
        lines: LineReader,
        writer: LineWriter,
        caller: "asyncio.Future[Principal]",
        endpoint: str = DEFAULT_ENDPOINT,
    ) -> None:
        self._server = server
        self._lines = lines
        self._writer = writer
        self._caller = caller
        self._unready_caller = local_principal(endpoint)
        self._limits = Limits(max_depth=settings.MAX_DEPTH)
        self._peer = StdioPeer(server, writer)
        self._requests = OpenRequests(self._peer, caller)
        self._answer_slots = asyncio.Semaphore(MAX_CONCURRENT_ANSWERS)

    async def run(self) -> None:
        """Serve until the client closes its end or is gone. Then cancel its open requests."""
        try:
            while (line := await self._lines.next()) is not None:
                await self._handle(line)
        except PeerGoneError as error:
            logger.info("the connection is closed: %s", error)
        finally:
            await self._requests.cancel_all()
            await self._peer.leave()

    async def _handle(self, line: bytes | Rejection) -> None:
        if isinstance(line, Rejection):
            sent: Route | LegacyMessages | Rejection = line
        elif len(line) <= SMALL_LINE_BYTES:
            sent = classify_line(line, self._limits)
        else:
            sent = await asyncio.to_thread(classify_line, line, self._limits)
        if isinstance(sent, Rejection):
            await StdioResponse(self._writer).reject(sent)
        elif isinstance(sent, Route):
            await self._begin_modern(sent)
        elif (refusal := self._check_batch(sent)) is not None:
            await StdioResponse(self._writer).reject(refusal)
        elif sent.is_batch:
            batch = StdioBatch(self._writer)
            serving = [await self._handle_legacy(message, batch.member()) for message in sent.messages]
            self._requests.start_task(self._send_batch(batch, [task for task in serving if task]), name="mcp-batch")
        else:
            await self._handle_legacy(sent.messages[0], StdioResponse(self._writer))

    def _check_batch(self, sent: LegacyMessages) -> Rejection | None:
        session = self._peer.session
        if sent.is_batch and session is None:
            return refuse(INVALID_REQUEST, NOT_INITIALIZED)
        return None if session is None else check_batch(sent, session.revision)

    async def _begin_modern(self, route: Route) -> None:
        response = StdioResponse(self._writer)
        if (refusal := self._requests.refuse(route.request_id)) is not None:
            await response.reject(refusal)
            return
        exchange = Exchange(
            server=self._server,
            route=route,
            headers=Headers(()),
            principal=self._unready_caller,
            remote_address="",
            response=response,
            mirrors_params=False,
        )
        self._requests.begin(exchange, response, methods.HANDLERS)

    async def _handle_legacy(self, message: Message, response: StdioResponse) -> "asyncio.Task[None] | None":
        """Handle one message. Return the task that serves it, if there is one."""
        if isinstance(message, Notification):
            self._handle_notification(message)
        elif isinstance(message, ClientResponse):
            await self._handle_answer(message, response)
        elif isinstance(message, Rejection):
            await response.reject(message)
        else:
            return await self._begin_legacy(message, response)
        return None

    async def _begin_legacy(self, request: RequestMessage, response: StdioResponse) -> "asyncio.Task[None] | None":
        route = self._requests.refuse(request.request_id) or self._route(request)
        if isinstance(route, Rejection):
            await response.reject(route)
            return None
        exchange = LegacyExchange(
            server=self._server,
            route=route,
            headers=Headers(()),
            principal=self._unready_caller,
            remote_address="",
            response=response,
            revision=LEGACY[route.metadata.protocol_version],
            peer=self._peer,
        )
        task = self._requests.begin(exchange, response, legacy_methods.HANDLERS)
        if request.method == "initialize":  # it negotiates the revision of the messages that follow
            await asyncio.wait([task])
        return task

    def _route(self, request: RequestMessage) -> Route | Rejection:
        session = self._peer.session
        if session is not None:
            return to_route(request, session.revision, session.handshake, ACCEPT_ANYTHING, self._limits)
        if request.method not in BEFORE_INITIALIZE:
            return refuse(INVALID_REQUEST, NOT_INITIALIZED, request.request_id)
        return to_route(request, LEGACY[ASSUMED_LEGACY], Handshake(), ACCEPT_ANYTHING, self._limits)

    def _handle_notification(self, notification: Notification) -> None:
        """Handle a notification. Unknown and malformed ones are ignored."""
        session = self._peer.session
        if notification.method == "notifications/cancelled":
            if (cancelled := read_cancelled(notification, self._limits)) is not None:
                self._requests.cancel(cancelled)
        elif notification.method == "notifications/initialized" and session is not None and session.mark_initialized():
            self._requests.start_task(self._start_listening(), name="mcp-initialized")

    async def _start_listening(self) -> None:
        """Send notifications to a client even before its first request."""
        try:
            await self._peer.listen(await asyncio.shield(self._caller))
        except NotReadyError as error:
            logger.info("notifications to the client could not be started: %s", error)
        except Exception:
            logger.exception("notifications to the client could not be started before its next request")

    async def _handle_answer(self, answer: ClientResponse, response: StdioResponse) -> None:
        """Store the answer to a question of this session. Other answers are ignored.

        A modern client is never asked in this way.
        """
        session = self._peer.session
        if answer.request_id is None:
            logger.info("the client reports an error: %r", answer.message["error"])
        elif session is None:
            await response.reject(refuse(INVALID_REQUEST, NOTHING_ASKED, answer.request_id))
        elif questions.find_asker(answer) in session.asking:
            # A flood of answers waits in the client's pipe and leaves threads for the process's
            # heartbeat.
            await self._answer_slots.acquire()
            task = self._requests.start_task(self._store_answer(answer), name="mcp-answer")
            task.add_done_callback(lambda _: self._answer_slots.release())

    async def _store_answer(self, answer: ClientResponse) -> None:
        try:
            await questions.store_answer(self._server, answer, principal=self._caller.result(), session_id=None)
        except Exception:
            logger.exception("a response could not be processed")

    async def _send_batch(self, batch: StdioBatch, serving: "list[asyncio.Task[None]]") -> None:
        try:
            await batch.answer(serving)
        except PeerGoneError as error:
            logger.info("the answers to a batch were not delivered: %s", error)
