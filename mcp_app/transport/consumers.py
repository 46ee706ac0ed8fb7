"""One HTTP request to the endpoint: its checks, its body, the task that serves it, and its disconnect.

The task is what Channels' own HTTP consumer lacks: while it runs this consumer goes on receiving, so that a disconnect
is seen within milliseconds and cancels it. Before it, while it is found out who asks and what, nothing is left behind
by a client that leaves, and nobody looks. Refuses to let an exception out once a response has begun, and to end before
its task has.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, TypeVar

from channels.consumer import AsyncConsumer
from django.conf import settings as django_settings

from mcp_app import loaded
from mcp_app.auth.connection import HeaderFields, HTTPConnection
from mcp_app.auth.principal import Principal
from mcp_app.conf import DEFAULT_ENDPOINT, KIB, settings
from mcp_app.protocol.connection import check_connection
from mcp_app.protocol.errors import Rejection, body_too_large
from mcp_app.protocol.headers import METHOD, Headers
from mcp_app.protocol.inbound import Notified, Route, classify
from mcp_app.protocol.jsonrpc import Limits
from mcp_app.protocol.legacy_inbound import LegacyPost
from mcp_app.transport import callers, failures, methods
from mcp_app.transport.admission import shutting_down
from mcp_app.transport.at_once import Begun
from mcp_app.transport.callers import Caller, who_asks
from mcp_app.transport.dispatch import dispatch
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.http import Response, Send
from mcp_app.transport.legacy import endpoint as legacy
from mcp_app.transport.legacy.http_exchange import Peer
from mcp_app.transport.remaining import Receive, Remaining, stay
from mcp_app.transport.responder import PeerGoneError
from mcp_app.transport.server import Server, current

logger = logging.getLogger(__name__)

R = TypeVar("R")
Serve = Callable[[], Coroutine[Any, Any, None]]
"""What is left to be done for a request."""

PARTS_IN_A_TURN: Final = 16
"""Of a body: what is taken in before others have their turn."""
SMALL_BODY_BYTES = 64 * KIB
"""What is parsed on the event loop; a larger body is parsed in a thread."""
LOOPBACK_HOSTS = ("localhost", ".localhost", "127.0.0.1", "[::1]")
ALWAYS_SERVED = "server/discover"
"""By it clients find out whether the server is there: it touches no row, and is answered however much else is asked."""
TOO_SLOW = Rejection(408, "The request body took too long to arrive.", 408)


class MCPConsumer(AsyncConsumer):
    """The MCP endpoint: `MCPConsumer.as_asgi()`, or of several `MCPConsumer.as_asgi(endpoint="staff")`.

    Takes no part in channel layers: the tail does, once for all (a receive loop for each request would cost each a
    connection to the layer). Reads no row on the thread that `sync_to_async` shares: no query delays a disconnect.
    """

    mounted: ClassVar[set[str]] = set()
    """The names of the endpoints that this process has made."""

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT) -> None:
        self._endpoint = endpoint

    @classmethod
    def as_asgi(cls, endpoint: str = DEFAULT_ENDPOINT) -> Any:
        """An ASGI application. Raises ImproperlyConfigured where the settings have no endpoint of that name."""
        settings.at(endpoint)
        MCPConsumer.mounted.add(endpoint)
        loaded.keep()
        return super().as_asgi(endpoint=endpoint)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.scope = scope
        self._headers = Headers(scope["headers"])
        self._response = Response(send, scope)
        self._body = bytearray()
        self._held_bytes = 0
        self._refusal: Rejection | None = None
        self._exchange: Exchange | Peer | None = None
        self._work: asyncio.Task[None] | None = None
        self._remaining: Remaining | None = None
        self._left = False
        server = self._server = current()
        try:
            await self._handle(receive)
            if self._remaining is not None and not self._left:
                await self._stay(server, self._remaining, receive)
        finally:
            if self._remaining is not None:
                self._remaining.leave()

    def refuse(self, refusal: Rejection) -> None:
        """Wait no longer for the rest of the body."""
        self._refusal = refusal
        with suppress(RuntimeError):  # its time was over at that very moment
            self._arrival.reschedule(0)

    async def _handle(self, receive: Receive) -> None:
        """Receive the request and answer it; what may follow the answer is left to others."""
        try:
            refusal = shutting_down() if self._server.stopped else await self._receive_body(receive)
            if self._left:
                return
            if (serve := await self._guarded(partial(self._begin, refusal))) is None:
                return
            self._work = asyncio.get_running_loop().create_task(self._guarded(serve), name="mcp-request")
            await self._watch(self._work, receive)
        finally:
            self._release()
            await self._stop_work()

    async def _receive_body(self, receive: Receive) -> Rejection | None:
        """Have the whole body, or why it is not waited for; `_left` says of a client that it did not wait either."""
        taking = Begun(self._take_parts(receive))
        if taking.is_done:
            return taking.result
        self._server.arriving.add(self)
        try:
            async with asyncio.timeout(settings.BODY_TIMEOUT) as self._arrival:
                return await taking
        except TimeoutError:
            return self._refusal or TOO_SLOW
        finally:
            self._server.arriving.discard(self)

    async def _take_parts(self, receive: Receive) -> Rejection | None:
        refusal = None
        for number in count(1):
            message = await receive()
            if message["type"] == "http.disconnect":
                self._left = True
                return None
            if number == 1 and (refusal := self._check_connection()) is not None:
                return refusal
            if (refusal := self._take_in(message.get("body", b""))) is not None:
                self._release()
                return refusal
            if not message.get("more_body", False):
                return None
            await self._let_others_work(number)
        raise AssertionError("unreachable: whatever is received ends")

    async def _watch(self, work: asyncio.Task[None], receive: Receive) -> None:
        """Wait for the work, or until the client leaves; that says nothing of a request that was answered."""
        watching = asyncio.timeout(None)

        def end(work: asyncio.Task[None]) -> None:
            with suppress(RuntimeError):  # the client left at that very moment
                watching.reschedule(0)

        with suppress(TimeoutError):
            async with watching:
                work.add_done_callback(end)
                for number in count(1):
                    if (await receive())["type"] == "http.disconnect":
                        break
                    await self._let_others_work(number)
                self._left = True
                if self._exchange is not None:
                    self._exchange.disconnected = True

    @staticmethod
    async def _let_others_work(parts: int) -> None:
        """Some servers have a large body ready, and receiving its parts waits for nothing."""
        if not parts % PARTS_IN_A_TURN:
            await asyncio.sleep(0)

    async def _stay(self, server: Server, remaining: Remaining, receive: Receive) -> None:
        """Wait with what remains, and hold nothing else of the request: it may be for hours, among thousands."""
        del self.scope, self._headers, self._response, self._body
        del self._exchange, self._work, self._server
        server.admission.remaining += 1
        try:
            await stay(remaining, receive)
        finally:
            server.admission.remaining -= 1

    def _take_in(self, part: bytes) -> Rejection | None:
        admission = self._server.admission
        self._body += part
        self._held_bytes += len(part)
        admission.body_bytes += len(part)
        if len(self._body) > settings.MAX_BODY_BYTES:
            return body_too_large(settings.MAX_BODY_BYTES)
        # Those that stall hold what they have sent; who sends little is not to wait for them.
        return admission.refuse_body() if len(self._body) > SMALL_BODY_BYTES else None

    def _release(self) -> None:
        """Hold the body no longer: a call may be waited for long after it was read."""
        if self._held_bytes:
            self._server.admission.body_bytes -= self._held_bytes
            self._held_bytes = 0
            self._body.clear()

    def _check_connection(self) -> Rejection | None:
        return check_connection(
            self.scope["method"],
            self._headers,
            allowed_hosts=_allowed_hosts(),
            allowed_origins=settings.at(self._endpoint).ALLOWED_ORIGINS,
            max_body_bytes=settings.MAX_BODY_BYTES,
            allow_loopback_origins=django_settings.DEBUG,
        )

    async def _stop_work(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _guarded(self, answer: Callable[[], Coroutine[Any, Any, R]]) -> R | None:
        """Answer, whatever happens."""
        try:
            return await answer()
        except PeerGoneError as error:
            logger.info("a response was not delivered: %s", error)
        except Exception as error:
            await self._fail(failures.explain(error, self._request_id))
        return None

    async def _begin(self, refusal: Rejection | None) -> Serve | None:
        """Answer what is answered at once; else, what is to be done while its client is watched.

        Nothing is left behind here by a client that leaves meanwhile.
        """
        server = self._server
        if refusal is None and server.stopped:
            refusal = shutting_down()
        if refusal is not None:
            await self._response.reject(refusal)
            return None
        connection = HTTPConnection(
            HeaderFields(self.scope["headers"]),
            self._remote_address,
            self.scope["path"],
            self._endpoint,
            method=self.scope["method"],
            scheme=self.scope.get("scheme", "http"),
        )
        principal = await who_asks(server.authentication, connection)
        if not isinstance(principal, Rejection) and (refusal := self._refuse(server, principal)) is not None:
            principal = refusal
        if isinstance(principal, Rejection):
            await self._response.reject(principal)
            return None
        caller = callers.caller(server.authentication, connection, principal)
        if self.scope["method"] != "POST":
            peer = self._legacy(server, principal, caller)
            return partial(self._counted, partial(legacy.serve_without_body, peer, self.scope["method"]))
        with server.admission.serving:
            message = await self._read(server, bytes(self._body))
        return await self._serve(message, principal, caller)

    def _refuse(self, server: Server, principal: Principal) -> Rejection | None:
        if self._is_said_to_be_always_served:
            return None
        return server.admission.refuse_request(principal, self._remote_address)

    @property
    def _is_said_to_be_always_served(self) -> bool:
        """By a header that only modern requests are held to."""
        said = self.scope["method"] == "POST" and self._headers.value(METHOD) == ALWAYS_SERVED
        return said and len(self._body) <= SMALL_BODY_BYTES

    async def _serve(
        self, message: Route | Notified | LegacyPost | Rejection, principal: Principal, caller: Caller
    ) -> Serve | None:
        server = self._server
        if isinstance(message, (LegacyPost, Notified)) and self._is_said_to_be_always_served:
            message = server.admission.refuse_request(principal, self._remote_address) or message
        self._release()
        if isinstance(message, Rejection):
            await self._response.reject(message)
            return None
        if isinstance(message, Notified):
            await self._response.accepted()
            return None
        if isinstance(message, LegacyPost):
            return partial(self._counted, partial(legacy.serve_post, self._legacy(server, principal, caller), message))
        self._exchange = Exchange(
            server=server,
            route=message,
            headers=self._headers,
            principal=principal,
            remote_address=self._remote_address,
            response=self._response,
            caller=caller,
        )
        serve = partial(self._counted, partial(self._dispatch, self._exchange))
        if message.method not in methods.AT_ONCE:
            return serve
        await serve()
        return None

    async def _counted(self, serve: Serve) -> None:
        with self._server.admission.serving:
            await serve()

    async def _dispatch(self, exchange: Exchange) -> None:
        await dispatch(exchange, methods.HANDLERS)
        self._remaining = exchange.remaining

    def _legacy(self, server: Server, principal: Principal, caller: Caller) -> Peer:
        peer = Peer(server, self._headers, principal, self._remote_address, self._response, caller)
        self._exchange = peer
        return peer

    async def _read(self, server: Server, body: bytes) -> Route | Notified | LegacyPost | Rejection:
        limits = Limits(max_depth=settings.MAX_DEPTH)
        if len(body) <= SMALL_BODY_BYTES:
            return classify(self._headers, body, limits)
        return await server.rows.run(classify, self._headers, body, limits)

    async def _fail(self, rejection: Rejection) -> None:
        """Tell a client whose response has not begun; end the response of one whose has."""
        try:
            if self._response.started:
                await self._response.end()
            else:
                await self._response.reject(rejection)
        except PeerGoneError as error:
            logger.info("a failure was not delivered: %s", error)

    @property
    def _remote_address(self) -> str:
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def _request_id(self) -> str | int | None:
        return self._exchange.request_id if self._exchange is not None else None


def _allowed_hosts() -> tuple[str, ...]:
    """The site's own list where `MCP["ALLOWED_HOSTS"]` is not set; loopback names join it under DEBUG."""
    if settings.ALLOWED_HOSTS is not None:
        return tuple(settings.ALLOWED_HOSTS)
    return (*django_settings.ALLOWED_HOSTS, *(LOOPBACK_HOSTS if django_settings.DEBUG else ()))
