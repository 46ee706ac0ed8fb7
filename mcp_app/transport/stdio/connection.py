"""One client over stdio, which is one session: its open requests, served at the same time, their cancellation, its end.

Refuses ids of requests that are still open, and more requests at once than it can keep. What belongs to the client
alone lives and dies here: a legacy session is to be kept here, too.
Source: 2026-07-28 basic/transports/stdio, basic/patterns/cancellation.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import ClassVar, Final

from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.conf import KIB, settings
from mcp_app.protocol.errors import INVALID_REQUEST, TOO_MANY_REQUESTS, UNAVAILABLE, Rejection, RequestId, refuse
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import Notified, Route
from mcp_app.protocol.jsonrpc import Limits
from mcp_app.protocol.lines import cancelled_request, classify_line
from mcp_app.transport import failures, methods
from mcp_app.transport.dispatch import dispatch
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.server import Server
from mcp_app.transport.stdio.lines import Lines
from mcp_app.transport.stdio.response import Response
from mcp_app.transport.stdio.writer import Writer

logger = logging.getLogger(__name__)

MAX_OPEN_REQUESTS: Final = 1_000
"""Of all kinds together; calls, reads and subscriptions have bounds of their own (`admission`)."""
SMALL_LINE_BYTES: Final = 64 * KIB
"""What is parsed on the event loop; a larger message is parsed in a thread."""
LEAVING_SECONDS: Final = 10.0
"""What open requests are given to have their cancellation stored."""
AT_ONCE: Final = frozenset({"server/discover"})
"""Served before the site is ready: a client takes a server that is silent for a legacy one."""


class NotReadyError(Exception):
    """The site cannot serve; what its operator is to do has been said where they see it."""


@dataclass(slots=True)
class StdioExchange(Exchange):
    """A request that came without headers."""

    mirrors_params: ClassVar[bool] = False


class Connection:
    """`run` serves one client. `caller` is who that is, once the site is ready; or raises NotReadyError."""

    def __init__(self, server: Server, lines: Lines, writer: Writer, caller: "asyncio.Future[Principal]") -> None:
        self._server = server
        self._lines = lines
        self._writer = writer
        self._caller = caller
        self._unready_caller = local_principal()
        self._limits = Limits(max_depth=settings.MAX_DEPTH)
        self._open: dict[RequestId, tuple[StdioExchange, Response, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until the client closes its end, or is gone; then have the work stopped that it waited for."""
        try:
            while (line := await self._lines.next()) is not None:
                await self._take(line)
        except PeerGoneError as error:
            logger.info("the connection ends: %s", error)
        finally:
            await self._leave()

    async def _take(self, line: bytes | Rejection) -> None:
        message = line if isinstance(line, Rejection) else await self._read(line)
        if isinstance(message, Rejection):
            await Response(self._writer).reject(message)
        elif isinstance(message, Notified):
            self._cancel(message)
        elif (refusal := self._refuse(message.request_id)) is not None:
            await Response(self._writer).reject(refusal)
        else:
            self._begin(message)

    async def _read(self, line: bytes) -> Route | Notified | Rejection:
        if len(line) <= SMALL_LINE_BYTES:
            return classify_line(line, self._limits)
        return await asyncio.to_thread(classify_line, line, self._limits)

    def _refuse(self, request_id: RequestId) -> Rejection | None:
        if request_id in self._open:
            return refuse(INVALID_REQUEST, "A request with this id is still open; give each its own.", request_id)
        if len(self._tasks) >= MAX_OPEN_REQUESTS:
            return refuse(TOO_MANY_REQUESTS, "Too many requests are open; wait for one to end.", request_id)
        return None

    def _begin(self, route: Route) -> None:
        response = Response(self._writer)
        exchange = StdioExchange(self._server, route, Headers(()), self._unready_caller, "", response)
        task = asyncio.get_running_loop().create_task(self._serve(exchange), name="mcp-request")
        self._open[route.request_id] = exchange, response, task
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._end(route.request_id, task))

    def _end(self, request_id: RequestId, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if request_id in self._open and self._open[request_id][2] is task:
            del self._open[request_id]

    async def _serve(self, exchange: StdioExchange) -> None:
        """The task: answer, whatever happens."""
        try:
            if exchange.route.method not in AT_ONCE:
                exchange.principal = await asyncio.shield(self._caller)
            await dispatch(exchange, methods.HANDLERS)
        except PeerGoneError as error:
            logger.info("a response was not delivered: %s", error)
        except NotReadyError as error:
            await self._fail(exchange, refuse(UNAVAILABLE, str(error), exchange.route.request_id))
        except Exception as error:
            await self._fail(exchange, failures.explain(error, exchange.route.request_id))

    async def _fail(self, exchange: StdioExchange, rejection: Rejection) -> None:
        try:
            await exchange.response.reject(rejection)
        except PeerGoneError as error:
            logger.info("a failure was not delivered: %s", error)

    def _cancel(self, notified: Notified) -> None:
        """Unknown, finished and malformed ones are ignored, without a word."""
        request_id = cancelled_request(notified, self._limits)
        if request_id is None or request_id not in self._open:
            return
        exchange, response, task = self._open.pop(request_id)
        reason = notified.params.get("reason")
        exchange.cancelled = True
        exchange.reason = reason if isinstance(reason, str) else ""
        response.silence()
        task.cancel()

    async def _leave(self) -> None:
        for exchange, response, task in self._open.values():
            exchange.disconnected = True
            response.silence()
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LEAVING_SECONDS)
            if late:
                logger.warning("%d requests are not known to be cancelled; supervision will see to them", len(late))
