"""One HTTP request to the endpoint: its checks, its body, the task that serves it, and its disconnect.

The task is what Channels' own HTTP consumer lacks: while it runs this consumer goes on receiving, so that a disconnect
is seen within milliseconds and cancels it. Refuses to let an exception out once a response has begun, and to end before
its task has.
"""

import asyncio
import logging
from typing import Any, ClassVar

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer
from channels.utils import await_many_dispatch
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
        self.base_send = send
        self._headers = Headers(scope["headers"])
        self._response = Response(send, scope)
        self._body = bytearray()
        self._held_bytes = 0
        self._checked = False
        self._exchange: Exchange | Peer | None = None
        self._work: asyncio.Task[None] | None = None
        self._working = asyncio.Event()
        self._remaining: Remaining | None = None
        self._left = False
        server = self._server = current()
        try:
            await self._handle(server, receive)
            if self._remaining is not None and not self._left:
                await self._stay(server, self._remaining, receive)
        finally:
            if self._remaining is not None:
                self._remaining.leave()

    async def _handle(self, server: Server, receive: Receive) -> None:
        """Receive the request and answer it; what may follow the answer is left to others."""
        server.arriving.add(self)
        if server.stopped:
            self.refuse(shutting_down())
        try:
            await await_many_dispatch([receive, self._finished], self.dispatch)
        except StopConsumer:
            pass
        finally:
            server.arriving.discard(self)
            self._release()
            await self._stop_work()

    async def _stay(self, server: Server, remaining: Remaining, receive: Receive) -> None:
        """Wait with what remains, and hold nothing else of the request: it may be for hours, among thousands."""
        del self.scope, self.base_send, self._headers, self._response, self._body
        del self._exchange, self._work, self._working, self._server
        server.admission.remaining += 1
        try:
            await stay(remaining, receive)
        finally:
            server.admission.remaining -= 1

    async def dispatch(self, message: dict[str, Any]) -> None:
        """As in Channels, without a visit to the shared database thread."""
        handlers = {
            "http.request": self.http_request,
            "http.disconnect": self.http_disconnect,
            "mcp.finished": self.mcp_finished,
        }
        await handlers[message["type"]](message)

    async def http_request(self, message: dict[str, Any]) -> None:
        """A part of the body. Returns at once, whatever it starts."""
        if self._work is not None:
            return
        if not self._checked:
            self._checked = True
            if (refusal := self._check_connection()) is not None:
                self._begin(refusal)
                return
        if (refusal := self._take_in(message.get("body", b""))) is not None:
            self._release()
            self._begin(refusal)
        elif not message.get("more_body", False):
            self._begin(None)

    async def http_disconnect(self, message: dict[str, Any]) -> None:
        """The client left; of a request that was answered this says nothing."""
        self._left = True
        if self._exchange is not None:
            self._exchange.disconnected = True
        raise StopConsumer

    async def mcp_finished(self, message: dict[str, Any]) -> None:
        raise StopConsumer

    def refuse(self, refusal: Rejection) -> None:
        """Wait no longer for the rest of the body."""
        if self._work is None:
            self._begin(refusal)

    def _take_in(self, part: bytes) -> Rejection | None:
        admission = self._server.admission
        self._body += part
        self._held_bytes += len(part)
        admission.body_bytes += len(part)
        if len(self._body) > settings.MAX_BODY_BYTES:
            return body_too_large(settings.MAX_BODY_BYTES)
        return admission.refuse_body()

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

    def _begin(self, refusal: Rejection | None) -> None:
        self._work = asyncio.get_running_loop().create_task(self._respond(refusal), name="mcp-request")
        self._working.set()

    async def _finished(self) -> dict[str, Any]:
        """Wait for the work; a body that does not come is refused."""
        too_slow = asyncio.get_running_loop().call_later(settings.BODY_TIMEOUT, self.refuse, TOO_SLOW)
        try:
            await self._working.wait()
        finally:
            too_slow.cancel()
        assert self._work is not None, "whoever sets the event has begun it"
        await asyncio.wait([self._work])
        return {"type": "mcp.finished"}

    async def _stop_work(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _respond(self, refusal: Rejection | None) -> None:
        """The task: answer, whatever happens."""
        try:
            if refusal is not None:
                await self._response.reject(refusal)
            else:
                await self._serve()
        except PeerGoneError as error:
            logger.info("a response was not delivered: %s", error)
        except Exception as error:
            await self._fail(failures.explain(error, self._request_id))

    async def _serve(self) -> None:
        server = self._server
        if server.stopped:
            await self._response.reject(shutting_down())
            return
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
            return
        with server.admission.serving():
            caller = callers.caller(server.authentication, connection, principal)
            await self._serve_principal(server, principal, caller)

    def _refuse(self, server: Server, principal: Principal) -> Rejection | None:
        if self._is_said_to_be_always_served:
            return None
        return server.admission.refuse_request(principal, self._remote_address)

    @property
    def _is_said_to_be_always_served(self) -> bool:
        """By a header that only modern requests are held to."""
        said = self.scope["method"] == "POST" and self._headers.value(METHOD) == ALWAYS_SERVED
        return said and len(self._body) <= SMALL_BODY_BYTES

    async def _serve_principal(self, server: Server, principal: Principal, caller: Caller) -> None:
        if self.scope["method"] != "POST":
            await legacy.serve_without_body(self._legacy(server, principal, caller), self.scope["method"])
            return
        message = await self._read(server, bytes(self._body))
        if self._is_said_to_be_always_served and isinstance(message, LegacyPost | Notified):
            message = server.admission.refuse_request(principal, self._remote_address) or message
        self._release()
        if isinstance(message, Rejection):
            await self._response.reject(message)
        elif isinstance(message, Notified):
            await self._response.accepted()
        elif isinstance(message, LegacyPost):
            await legacy.serve_post(self._legacy(server, principal, caller), message)
        else:
            self._exchange = Exchange(
                server=server,
                route=message,
                headers=self._headers,
                principal=principal,
                remote_address=self._remote_address,
                response=self._response,
                caller=caller,
            )
            await dispatch(self._exchange, methods.HANDLERS)
            self._remaining = self._exchange.remaining

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


def _allowed_hosts() -> list[str]:
    """The site's own list where `MCP["ALLOWED_HOSTS"]` is not set; loopback names join it under DEBUG."""
    if settings.ALLOWED_HOSTS is not None:
        return list(settings.ALLOWED_HOSTS)
    return [*django_settings.ALLOWED_HOSTS, *(LOOPBACK_HOSTS if django_settings.DEBUG else ())]
