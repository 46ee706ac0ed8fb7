"""Serves one HTTP request to the endpoint: its checks, its body, its handler, and its disconnect.

Theory of operation
-------------------

Channels' own HTTP consumer receives the body and then stops receiving, so it cannot notice that the
client leaves. This consumer runs the handler in a task and goes on receiving meanwhile. A
disconnect is noticed within milliseconds, and cancels the task.

1. `_receive_body` checks the headers when the first part of the body arrives, and stops at the first
   refusal.
2. `_begin` authenticates the caller and parses the message. Until that is done, a request has no side effects,
   so disconnects are not watched for. Requests that need no waiting (`methods.AT_ONCE`), such as
   `server/discover`, are answered here.
3. `_handle` runs `_serve`, which calls the method's handler, in a task, while `_watch` waits for the
   end of the task or for a disconnect.
4. A listen stream outlives its handler. It is kept in `_detached`, and the consumer frees everything
   large, because thousands of streams may stay open for hours.

The consumer does not end before its task, and once a response has begun no error of a handler leaves
the consumer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar, Final

from channels.consumer import AsyncConsumer
from django.conf import settings as django_settings

from mcp_app import descriptors
from mcp_app.auth.authentication import HeaderFields, HTTPConnection
from mcp_app.auth.principal import Principal
from mcp_app.conf import DEFAULT_ENDPOINT, KIB, settings
from mcp_app.embedded.extensions import UNSENT_BYTES
from mcp_app.protocol.errors import Rejection, body_too_large
from mcp_app.protocol.headers import METHOD_HEADER, Headers
from mcp_app.protocol.inbound import ModernNotification, check_connection, classify, cors_fields, preflight_fields
from mcp_app.protocol.jsonrpc import Limits
from mcp_app.protocol.legacy.inbound import LegacyPost
from mcp_app.protocol.requests import Route
from mcp_app.transport import methods
from mcp_app.transport.http.responses import EndpointResponse, Send
from mcp_app.transport.legacy import endpoint as legacy
from mcp_app.transport.legacy.http_peer import HTTPPeer
from mcp_app.transport.process.admission import BUSY, shutting_down, unavailable
from mcp_app.transport.server import Server, current, warn_of_daphne
from mcp_app.transport.serving import callers, failures
from mcp_app.transport.serving.callers import StreamCaller, authenticate_caller
from mcp_app.transport.serving.exchange import Exchange, Interruption
from mcp_app.transport.serving.responder import DetachedResponse, PeerGoneError, Receive, stay

logger = logging.getLogger(__name__)

PARTS_IN_A_TURN: Final = 16
"""Parts of a body that are received before other requests get their turn."""
SMALL_BODY_BYTES = 64 * KIB
"""Bodies up to this size are parsed on the event loop and not refused for lack of memory, larger ones in a thread."""
LOOPBACK_HOSTS = ("localhost", ".localhost", "127.0.0.1", "[::1]")
ALWAYS_SERVED = "server/discover"
"""The method by which clients probe a server. It reads no row, so it is never refused for load."""
TOO_SLOW = Rejection(408, "The request body took too long to arrive.", 408)


class MCPConsumer(AsyncConsumer):
    """The MCP endpoint.

    Use `MCPConsumer.as_asgi()`, or `MCPConsumer.as_asgi(endpoint="staff")` for one of several.

    It does not join the channel layer, because each request would need a connection to it. The row
    watcher watches the rows for all requests. Queries run in threads, so that no query delays the
    noticing of a disconnect.
    """

    mounted: ClassVar[set[str]] = set()
    """The names of the endpoints that this process serves."""

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT) -> None:
        self._endpoint = endpoint

    @classmethod
    def as_asgi(cls, endpoint: str = DEFAULT_ENDPOINT) -> Any:
        """Return an ASGI application.

        Raises `ImproperlyConfigured` if the settings have no endpoint of that name.
        """
        settings.at(endpoint)
        MCPConsumer.mounted.add(endpoint)
        return super().as_asgi(endpoint=endpoint)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.scope = scope
        client = scope.get("client")
        self._remote_address = str(client[0]) if client else ""
        self._headers = Headers(scope["headers"])
        self._response = EndpointResponse(send, scope)
        self._response.fields = cors_fields(
            self._headers, settings.at(self._endpoint).ALLOWED_ORIGINS, loopback=django_settings.DEBUG
        )
        self._body = bytearray()
        self._held_bytes = 0
        self._refusal: Rejection | None = None
        self._exchange: Exchange | HTTPPeer | None = None
        self._interruption = Interruption()
        self._work: asyncio.Task[None] | None = None
        self._detached: DetachedResponse | None = None
        self._client_left = False
        server = self._server = current()
        server.once(warn_of_daphne, UNSENT_BYTES in scope.get("extensions", ()))
        try:
            await self._handle(receive)
            if self._detached is not None and not self._client_left:
                await self._stay(server, self._detached, receive)
        finally:
            if self._detached is not None:
                self._detached.leave()

    def refuse(self, refusal: Rejection) -> None:
        """Refuse the request without waiting for the rest of its body."""
        self._refusal = refusal
        with suppress(RuntimeError):  # the timeout has just expired
            self._body_timeout.reschedule(0)

    async def _handle(self, receive: Receive) -> None:
        """Receive the request and answer it.

        A response that outlives its handler is kept in `_detached`.
        """
        if (fields := preflight_fields(self.scope["method"], self._headers)) is not None:
            # A browser asks whether a page may call. It sends no credential, and no limit counts
            # the request.
            refusal = self._check_connection()
            async with self._answering():
                await (self._response.empty(200, fields) if refusal is None else self._response.reject(refusal))
            return
        try:
            refusal = shutting_down() if self._server.stopped else await self._receive_body(receive)
            if self._client_left:
                return
            request = None
            async with self._answering():
                request = await self._begin(refusal)
            if request is not None:
                self._work = asyncio.get_running_loop().create_task(self._serve(request), name="mcp-request")
                await self._watch(self._work, receive)
        finally:
            self._release_body()
            if self._work is not None and not self._work.done():
                # The client has left, or the web server cancels this request. Cancelling the task
                # cancels a tool call: see `CallStream._give_up`.
                self._work.cancel()
                await asyncio.wait([self._work])

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        """Answer with an error if the block raises. If the response has already begun, end it."""
        try:
            try:
                yield
            except PeerGoneError:
                raise
            except Exception as error:
                request_id = None if self._exchange is None else self._exchange.request_id
                rejection = failures.explain(error, request_id)
                await (self._response.end() if self._response.started else self._response.reject(rejection))
        except PeerGoneError as error:
            logger.info("a response was not delivered: %s", error)

    async def _receive_body(self, receive: Receive) -> Rejection | None:
        """Receive the whole body, or return why it is refused. Set `_client_left` if the client leaves."""
        self._server.arriving.add(self)
        try:
            async with asyncio.timeout(settings.BODY_TIMEOUT) as self._body_timeout:
                for number in count(1):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        self._client_left = True
                        return None
                    if number == 1 and (refusal := self._check_connection()) is not None:
                        return refusal
                    if (refusal := self._add_to_body(message.get("body", b""))) is not None:
                        self._release_body()
                        return refusal
                    if not message.get("more_body", False):
                        return None
                    await self._let_others_work(number)
        except TimeoutError:
            return self._refusal or TOO_SLOW
        finally:
            self._server.arriving.discard(self)
        raise AssertionError("unreachable: the loop ends by returning")

    async def _watch(self, work: asyncio.Task[None], receive: Receive) -> None:
        """Return when the work is done, or when the client has left, which is noted.

        Cancels nothing.
        """
        watching = asyncio.timeout(None)

        def end(work: asyncio.Task[None]) -> None:
            with suppress(RuntimeError):  # the client has just left
                watching.reschedule(0)

        with suppress(TimeoutError):
            async with watching:
                work.add_done_callback(end)
                for number in count(1):
                    if (await receive())["type"] == "http.disconnect":
                        break
                    await self._let_others_work(number)
                self._client_left = True
                self._interruption.disconnected = True

    @staticmethod
    async def _let_others_work(parts: int) -> None:
        """Yield to other requests now and then.

        Without this, receiving a body that the web server has buffered would block the event loop.
        """
        if not parts % PARTS_IN_A_TURN:
            await asyncio.sleep(0)

    async def _stay(self, server: Server, detached: DetachedResponse, receive: Receive) -> None:
        """Keep a detached response open and free everything else.

        Thousands of responses may stay open for hours.
        """
        del self.scope, self._headers, self._response, self._body, self._remote_address
        del self._exchange, self._work, self._server
        server.admission.detached += 1
        try:
            await stay(detached, receive)
        finally:
            server.admission.detached -= 1

    def _add_to_body(self, part: bytes) -> Rejection | None:
        admission = self._server.admission
        self._body += part
        self._held_bytes += len(part)
        admission.body_bytes += len(part)
        if len(self._body) > settings.MAX_BODY_BYTES:
            return body_too_large(settings.MAX_BODY_BYTES)
        # Stalled clients may hold a lot of memory together. Small bodies must not be refused
        # because of them.
        return admission.refuse_body() if len(self._body) > SMALL_BODY_BYTES else None

    def _release_body(self) -> None:
        """Free the body. A call may go on for long after its body was read."""
        if self._held_bytes:
            self._server.admission.body_bytes -= self._held_bytes
            self._held_bytes = 0
            self._body.clear()

    def _check_connection(self) -> Rejection | None:
        hosts = settings.ALLOWED_HOSTS
        if hosts is None:
            hosts = (*django_settings.ALLOWED_HOSTS, *(LOOPBACK_HOSTS if django_settings.DEBUG else ()))
        return check_connection(
            self.scope["method"],
            self._headers,
            allowed_hosts=hosts,
            allowed_origins=settings.at(self._endpoint).ALLOWED_ORIGINS,
            max_body_bytes=settings.MAX_BODY_BYTES,
            allow_loopback_origins=django_settings.DEBUG,
        )

    async def _begin(self, refusal: Rejection | None) -> Exchange | HTTPPeer | None:
        """Authenticate the caller, parse the message, and answer requests that need no waiting.

        Return the request that must be served while its client is watched, or `None` if it has been
        answered.
        """
        server = self._server
        refusal = refusal or self._immediate_refusal(server)
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
        principal = await authenticate_caller(server.authentication, connection)
        if not isinstance(principal, Rejection) and not self._is_declared_discover:
            principal = server.admission.refuse_request(principal) or principal
        if isinstance(principal, Rejection):
            await self._response.reject(principal)
            return None
        caller = callers.stream_caller(server.authentication, connection, principal)
        if self.scope["method"] != "POST":
            return self._legacy(principal, caller, None)
        limits, body = Limits(max_depth=settings.MAX_DEPTH), bytes(self._body)
        with server.admission.serving:
            if len(body) <= SMALL_BODY_BYTES:
                message = classify(self._headers, body, limits)
            else:
                message = await server.parsing.run(classify, self._headers, body, limits)
        return await self._begin_message(message, principal, caller)

    def _immediate_refusal(self, server: Server) -> Rejection | None:
        """Return a refusal if this process is stopping or has no descriptor to spare. Called before authentication."""
        if server.stopped:
            return shutting_down()
        if self._is_declared_discover or descriptors.has_capacity_for_requests():
            return None
        busy = unavailable(BUSY, None)
        if self.scope.get("http_version", "").startswith("1"):  # later versions have no such header
            return replace(busy, headers=(*busy.headers, (b"connection", b"close")))
        return busy

    @property
    def _is_declared_discover(self) -> bool:
        """Whether this is a small POST whose `Mcp-Method` header names `server/discover`.

        Only in modern requests is the header later compared with the body, so `_begin_message` applies the limits to
        the others.
        """
        names_it = self.scope["method"] == "POST" and self._headers.value(METHOD_HEADER) == ALWAYS_SERVED
        return names_it and len(self._body) <= SMALL_BODY_BYTES

    async def _begin_message(
        self, message: Route | ModernNotification | LegacyPost | Rejection, principal: Principal, caller: StreamCaller
    ) -> Exchange | HTTPPeer | None:
        """Continue `_begin` with the parsed message, and return the same."""
        if isinstance(message, (LegacyPost, ModernNotification)) and self._is_declared_discover:
            message = self._server.admission.refuse_request(principal) or message
        self._release_body()
        if isinstance(message, Rejection):
            await self._response.reject(message)
            return None
        if isinstance(message, ModernNotification):
            await self._response.accepted()
            return None
        if isinstance(message, LegacyPost):
            return self._legacy(principal, caller, message)
        exchange = self._exchange = Exchange(
            server=self._server,
            route=message,
            headers=self._headers,
            principal=principal,
            remote_address=self._remote_address,
            response=self._response,
            caller=caller,
            interruption=self._interruption,
        )
        if message.method in methods.AT_ONCE:
            await self._serve(exchange)
            return None
        return exchange

    def _legacy(self, principal: Principal, caller: StreamCaller, post: LegacyPost | None) -> HTTPPeer:
        peer = self._exchange = HTTPPeer(
            self._server,
            self._headers,
            principal,
            self._remote_address,
            self._response,
            caller,
            self._interruption,
            post,
        )
        return peer

    async def _serve(self, request: Exchange | HTTPPeer) -> None:
        async with self._answering():
            with self._server.admission.serving:
                if isinstance(request, Exchange):
                    await methods.dispatch(request, methods.HANDLERS)
                    self._detached = request.detached
                elif request.post is not None:
                    await legacy.serve_post(request, request.post)
                else:
                    await legacy.serve_without_body(request, self.scope["method"])
