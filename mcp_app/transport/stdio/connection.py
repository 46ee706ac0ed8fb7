"""One client over stdio, from its first line to its end: what each line is, and whose.

How a request opens decides its era: one that declares its version is modern, also after an `initialize`; what declares
none belongs to the session that `initialize` begins, one in a connection. Refuses other legacy requests before that.
Source: 2026-07-28 basic/transports/stdio, basic/versioning "Backward Compatibility"; 2025-11-25 and earlier,
basic/lifecycle, basic/transports "stdio".
"""

import asyncio
import logging
from types import MappingProxyType
from typing import Final

from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.conf import DEFAULT_ENDPOINT, KIB, settings
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, refuse
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.jsonrpc import Answer, Limits, Notification, Request
from mcp_app.protocol.legacy_inbound import LegacyMessages, Message, check_batch
from mcp_app.protocol.legacy_requests import Handshake, read_cancelled, to_route
from mcp_app.protocol.lines import ANYTHING, classify_line
from mcp_app.protocol.revisions import ASSUMED_LEGACY, LEGACY
from mcp_app.transport import methods
from mcp_app.transport.dispatch import Handlers
from mcp_app.transport.legacy import methods as legacy_methods
from mcp_app.transport.legacy import questions
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.server import Server
from mcp_app.transport.stdio.batch import Batch
from mcp_app.transport.stdio.exchange import LegacyStdioExchange, Peer, StdioExchange
from mcp_app.transport.stdio.lines import Lines
from mcp_app.transport.stdio.requests import NotReadyError, OpenRequests
from mcp_app.transport.stdio.response import Response
from mcp_app.transport.stdio.writer import Writer

logger = logging.getLogger(__name__)

SMALL_LINE_BYTES: Final = 64 * KIB
"""What is parsed on the event loop; a larger message is parsed in a thread."""
ANSWERS_AT_ONCE: Final = 2
"""How many are taken at the same time."""
BEFORE_INITIALIZE: Final = frozenset({"initialize", "ping"})
NOT_INITIALIZED: Final = "Send initialize first, or declare in params._meta that the request is of MCP 2026-07-28."
NOTHING_ASKED: Final = "Nothing was asked that this could answer; send requests and notifications."

LEGACY_HANDLERS: Final[Handlers[LegacyStdioExchange]] = MappingProxyType(
    {**legacy_methods.HANDLERS, "tools/call": questions.serve_call}
)


class Connection:
    """`run` serves one client, of the endpoint of that name. `caller` is who that is, once the site is ready; or raises
    NotReadyError."""

    def __init__(
        self,
        server: Server,
        lines: Lines,
        writer: Writer,
        caller: "asyncio.Future[Principal]",
        endpoint: str = DEFAULT_ENDPOINT,
    ) -> None:
        self._server = server
        self._lines = lines
        self._writer = writer
        self._caller = caller
        self._unready_caller = local_principal(endpoint)
        self._limits = Limits(max_depth=settings.MAX_DEPTH)
        self._peer = Peer(server, writer)
        self._requests = OpenRequests(self._peer, caller)
        self._answering = asyncio.Semaphore(ANSWERS_AT_ONCE)

    async def run(self) -> None:
        """Serve until the client closes its end, or is gone; then have the work stopped that it waited for."""
        try:
            while (line := await self._lines.next()) is not None:
                await self._take(line)
        except PeerGoneError as error:
            logger.info("the connection ends: %s", error)
        finally:
            await self._requests.leave()
            await self._peer.leave()

    async def _take(self, line: bytes | Rejection) -> None:
        sent = line if isinstance(line, Rejection) else await self._read(line)
        if isinstance(sent, Rejection):
            await Response(self._writer).reject(sent)
        elif isinstance(sent, Route):
            await self._take_modern(sent)
        elif (refusal := self._check_batch(sent)) is not None:
            await Response(self._writer).reject(refusal)
        elif sent.is_batch:
            batch = Batch(self._writer)
            serving = [await self._take_legacy(message, batch.member()) for message in sent.messages]
            self._requests.keep(self._answer(batch, [task for task in serving if task]), name="mcp-batch")
        else:
            await self._take_legacy(sent.messages[0], Response(self._writer))

    async def _read(self, line: bytes) -> Route | LegacyMessages | Rejection:
        if len(line) <= SMALL_LINE_BYTES:
            return classify_line(line, self._limits)
        return await asyncio.to_thread(classify_line, line, self._limits)

    def _check_batch(self, sent: LegacyMessages) -> Rejection | None:
        session = self._peer.session
        if sent.is_batch and session is None:
            return refuse(INVALID_REQUEST, NOT_INITIALIZED)
        return None if session is None else check_batch(sent, session.revision)

    async def _take_modern(self, route: Route) -> None:
        response = Response(self._writer)
        if (refusal := self._requests.refuse(route.request_id)) is not None:
            await response.reject(refusal)
            return
        exchange = StdioExchange(self._server, route, Headers(()), self._unready_caller, "", response)
        self._requests.begin(exchange, response, methods.HANDLERS)

    async def _take_legacy(self, message: Message, response: Response) -> "asyncio.Task[None] | None":
        """Take one message; what serves it, if it is served."""
        if isinstance(message, Notification):
            self._notified(message)
        elif isinstance(message, Answer):
            await self._answered(message, response)
        elif isinstance(message, Rejection):
            await response.reject(message)
        else:
            return await self._begin(message, response)
        return None

    async def _begin(self, request: Request, response: Response) -> "asyncio.Task[None] | None":
        route = self._requests.refuse(request.request_id) or self._route(request)
        if isinstance(route, Rejection):
            await response.reject(route)
            return None
        exchange = LegacyStdioExchange(
            server=self._server,
            route=route,
            headers=Headers(()),
            principal=self._unready_caller,
            remote_address="",
            response=response,
            revision=LEGACY[route.metadata.protocol_version],
            peer=self._peer,
        )
        task = self._requests.begin(exchange, response, LEGACY_HANDLERS)
        if request.method == "initialize":  # what follows is of the revision that it negotiates
            await asyncio.wait([task])
        return task

    def _route(self, request: Request) -> Route | Rejection:
        session = self._peer.session
        if session is not None:
            return to_route(request, session.revision, session.handshake, ANYTHING, self._limits)
        if request.method not in BEFORE_INITIALIZE:
            return refuse(INVALID_REQUEST, NOT_INITIALIZED, request.request_id)
        return to_route(request, LEGACY[ASSUMED_LEGACY], Handshake(), ANYTHING, self._limits)

    def _notified(self, notification: Notification) -> None:
        """What else there is, and what is malformed, is ignored, without a word."""
        session = self._peer.session
        if notification.method == "notifications/cancelled":
            if (cancelled := read_cancelled(notification, self._limits)) is not None:
                self._requests.cancel(cancelled)
        elif notification.method == "notifications/initialized" and session is not None and session.initialized():
            self._requests.keep(self._listen(), name="mcp-initialized")

    async def _listen(self) -> None:
        """For a client that asks for nothing: it is to be told all the same."""
        try:
            await self._peer.listen(await asyncio.shield(self._caller))
        except NotReadyError as error:
            logger.info("nothing is told: %s", error)
        except Exception:
            logger.exception("nothing is told before the next request")

    async def _answered(self, answer: Answer, response: Response) -> None:
        """What answers nothing that was asked here is passed over; a modern client is never asked in this way."""
        session = self._peer.session
        if answer.request_id is None:
            logger.info("the client says that something was wrong: %r", answer.message["error"])
        elif session is None:
            await response.reject(refuse(INVALID_REQUEST, NOTHING_ASKED, answer.request_id))
        elif questions.asked_by(answer) in session.asking:
            # A client that floods is held up in its pipe, and not the process's heartbeat in its threads.
            await self._answering.acquire()
            taking = self._requests.keep(self._take_answer(answer), name="mcp-answer")
            taking.add_done_callback(lambda _: self._answering.release())

    async def _take_answer(self, answer: Answer) -> None:
        try:
            await questions.take(self._server, answer, principal=self._caller.result(), session_id=None)
        except Exception:
            logger.exception("an answer was not taken")

    async def _answer(self, batch: Batch, serving: "list[asyncio.Task[None]]") -> None:
        try:
            await batch.answer(serving)
        except PeerGoneError as error:
            logger.info("the answers to a batch were not delivered: %s", error)
