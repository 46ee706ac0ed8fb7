"""The embedded web server: Daphne, made safe for a public endpoint. It serves any ASGI application.

Differences from Daphne:

1. A body that is too large is refused while it arrives. All arriving bodies together are limited,
   too. Twisted parses no form on the event loop.
2. Requests that are slow to arrive, and connections beyond a number, are refused
   (`server_connections`).
3. Headers by which a proxy in front could be deceived are refused.
4. An application whose client reads slowly has to wait. Daphne would buffer the whole response.
5. An exception in the middle of a response ends that connection only.
6. SIGINT or SIGTERM frees the port, drains open requests, and then stops the server.

Importing this module installs Twisted's asyncio reactor, as `daphne.server` does. No reactor may be
imported before.
"""

# ruff: noqa: N802  (Twisted's method names)

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakSet

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from twisted.internet import defer
from twisted.internet import reactor as _reactor
from twisted.internet.error import CannotListenError
from twisted.logger import globalLogBeginner
from twisted.web.http_headers import Headers

from mcp_app import descriptors
from mcp_app.embedded.extensions import UNSENT_BYTES
from mcp_app.embedded.server_connections import LINGER_SECONDS, EmbeddedChannel, PatientPort, RefusedConnection, refusal

logger = logging.getLogger(__name__)

access_logger = logging.getLogger(f"{__name__}.access")
#: The reactor has more methods than Twisted declares.
reactor: Any = _reactor
Drain = Callable[[], Awaitable[None]]
BUSY = "The server is busy; try again in a moment."
#: Connections that may wait to be accepted. The system may have a lower limit.
BACKLOG = 1_024
#: How long the last bytes may take to be sent after the applications have ended.
FLUSH_SECONDS = 1.0
#: Bytes that a client has not read, beyond which its application waits. More than
#: `MAX_UNSENT_BYTES`, at which this app's transport ends a stream.
WRITE_AHEAD_BYTES = 4 * 1024 * 1024
#: A body up to this size is not refused because of other bodies.
SMALL_BODY_BYTES = 64 * 1024
#: How many chunks of a body may be smaller than CHUNK_BYTES. Each one takes time of the event loop.
SMALL_CHUNKS = 2_000
CHUNK_BYTES = 64
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ListenError(OSError):
    """The address cannot be used for listening. The message names it and the reason."""


def serve(application: Any, host: str, port: int, **options: Any) -> None:
    """Listen and serve until a signal. Raises `ListenError` before anything runs."""
    EmbeddedServer(application, host, port, **options).run()


class EmbeddedServer(Server):
    """One listening address in front of one ASGI application. Call `listen`, then `run`, once in a
    process.

    - `max_body_bytes`: a larger request body gets a 413.
    - `max_held_bytes`: the limit for all bodies that are arriving; beyond it requests get a 503.
    - `max_connections`: the limit for connections; more get a 503 with `retry_after` seconds.
    - `head_timeout`: seconds from the first byte of a request, or its connection, to its last
      header.
    - `body_timeout`: seconds from there to the last byte of the body.
    - `vanished_after`: seconds without an acknowledgement of the client's host, after which its
      connection ends.
    - `ready_callable`: called with host and port in the event loop, once signals are handled.
    - `drain`: awaited after the first signal, when the port is free and open requests go on. It
      ends after `drain_seconds`, or at the second signal.
    - `application_close_timeout`: seconds that an application has to end after its client has gone,
      or after it was cancelled at the stop.
    """

    def __init__(
        self,
        application: Any,
        host: str,
        port: int,
        *,
        max_body_bytes: int,
        vanished_after: float = 30.0,
        max_held_bytes: int = 64 * 1024 * 1024,
        max_connections: int = 4_096,
        head_timeout: float = 20.0,
        body_timeout: float = 60.0,
        retry_after: int = 1,
        ready_callable: Callable[[str, int], None] | None = None,
        drain: Drain | None = None,
        drain_seconds: float = 10.0,
        access_log: bool = False,
        application_close_timeout: float = 10.0,
    ) -> None:
        super().__init__(
            application,
            endpoints=[f"{host}:{port}"],
            action_logger=_log_access if access_log else None,
            application_close_timeout=application_close_timeout,
        )
        self.host = host
        self.port = port
        self.max_body_bytes = max_body_bytes
        self.vanished_after = vanished_after
        self.max_held_bytes = max_held_bytes
        self.held_bytes = 0
        self.max_connections = max_connections
        self.head_timeout = head_timeout
        self.body_timeout = body_timeout
        self.busy = refusal(503, "Service Unavailable", BUSY, retry_after=retry_after)
        self.draining = False
        self.connections: dict[Any, dict[str, Any]] = {}
        self._ready = ready_callable
        self._drain = drain
        self._drain_seconds = drain_seconds
        self.listening: Any = None
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = False
        self.http_factory = EmbeddedFactory(self)
        self.ws_factory = WebSocketFactory(self, server=self.server_name)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            # Daphne before 4.2 has no limits.
            maxMessagePayloadSize=getattr(self, "websocket_max_message_size", 0),
            maxFramePayloadSize=getattr(self, "websocket_max_frame_size", 0),
        )

    def listen(self) -> int:
        """Bind the address and return its port; port 0 means any free one. Raises `ListenError`."""
        try:
            self.listening = PatientPort(self.port, self.http_factory, BACKLOG, self.host, reactor)
            self.listening.startListening()
        except CannotListenError as error:
            raise ListenError(f"Cannot listen on {self.host} port {self.port}: {error.socketError}") from error
        self.port = self.listening.getHost().port
        return self.port

    def run(self) -> None:
        """Serve until a signal or `stop`. Return when everything has ended."""
        if self.listening is None:
            self.listen()
        # Twisted buffers its log in memory until an observer is set.
        observers: list[Any] = [lambda _: None]
        globalLogBeginner.beginLoggingTo(observers, redirectStandardIO=False, discardBuffer=True)
        loop = reactor._asyncioEventloop
        asyncio.set_event_loop(loop)
        reactor.callLater(1, self.application_checker)
        reactor.callLater(2, self.timeout_checker)
        reactor.addSystemEventTrigger("before", "shutdown", self.kill_all_applications)
        if self._ready is not None:
            reactor.callWhenRunning(self._ready, self.host, self.port)
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        try:
            reactor.run(installSignalHandlers=False)
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        """Create the application, with a function that returns its unsent bytes in the scope."""
        if isinstance(protocol, EmbeddedRequest):
            scope["extensions"] = {UNSENT_BYTES: protocol.unsent_bytes}
        return super().create_application(protocol, scope)

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Send a part of a response. Let the application wait if its client reads slowly."""
        await super().handle_reply(protocol, message)
        if isinstance(protocol, EmbeddedRequest) and message.get("more_body"):
            await protocol.wait_until_written()

    def kill_all_applications(self) -> Any:
        """Cancel the applications that still run, and wait for them for a limited time.

        Daphne's own method fails for requests that are still arriving.
        """
        return defer.Deferred.fromFuture(asyncio.ensure_future(self._end_applications()))

    def stop(self) -> None:
        """Stop at once. Does nothing if called again."""
        if not self._stopped:
            self._stopped = True
            super().stop()

    def stop_soon(self) -> None:
        """Drain and stop, as on a first signal. Safe in any thread, also before `run`."""
        reactor.callFromThread(self._begin_stop)

    async def drain_and_stop(self) -> None:
        """Free the port, await `drain`, let responses be sent, and stop."""
        self.draining = True
        await defer.maybeDeferred(self.listening.stopListening).asFuture(asyncio.get_running_loop())
        if self._drain is not None:
            try:
                await asyncio.wait_for(self._drain(), self._drain_seconds)
            except TimeoutError:
                logger.warning("Stopping although draining has not ended in %s s", self._drain_seconds)
            except Exception:
                logger.exception("Draining failed; stopping anyway")
        await self._end_applications()
        await self.http_factory.close_connections(FLUSH_SECONDS)
        self.stop()

    async def _end_applications(self) -> None:
        applications = [details.get("application_instance") for details in list(self.connections.values())]
        running = [application for application in applications if application and not application.done()]
        for application in running:
            application.cancel()
        if running:
            _, pending = await asyncio.wait(running, timeout=self.application_close_timeout)
            if pending:
                logger.warning("%d requests did not end when they were cancelled", len(pending))

    def _on_signal(self) -> None:
        if self._stopping is None:
            self._begin_stop()
        else:
            self._stopping.cancel()
            self.stop()

    def _begin_stop(self) -> None:
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self.drain_and_stop())


class EmbeddedFactory(HTTPFactory):
    """Builds an `EmbeddedChannel` for each connection, or refuses it.

    Knows the open connections.
    """

    protocol = EmbeddedChannel

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.channels: WeakSet[Any] = WeakSet()
        self.transports: WeakSet[Any] = WeakSet()

    def buildProtocol(self, addr: Any) -> Any:
        at_most: int = self.server.max_connections
        # Closed connections are forgotten soon. Exclude them only if the limit seems to be reached.
        is_full = len(self.transports) >= at_most and sum(bool(each.connected) for each in self.transports) >= at_most
        if is_full or not descriptors.has_capacity_for_connections():
            return RefusedConnection(self.server.busy, self.server.listening)
        channel = super().buildProtocol(addr)
        channel.requestFactory = EmbeddedRequest
        return channel

    async def close_connections(self, seconds: float) -> None:
        """Close connections once their data has been sent, or after `seconds`."""
        for transport in self._open():
            transport.loseConnection()
        deadline = asyncio.get_running_loop().time() + seconds
        while self._open() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 (Twisted has no event for it)
            await asyncio.sleep(0.01)
        for transport in self._open():
            transport.abortConnection()

    def _open(self) -> list[Any]:
        transports = [channel.transport for channel in self.channels]
        return [transport for transport in transports if transport is not None and transport.connected]


class EmbeddedRequest(WebRequest):
    """Daphne's request, with limits on its body while it arrives."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # By default Twisted would parse forms, for any path and before any check.
        super().__init__(*args, parsePOSTFormSubmission=False, **kwargs)
        self.channel.factory.channels.add(self.channel)
        self._received_bytes = 0
        self._held_bytes = 0
        self._chunks = 0
        self._is_chunked = False
        self._linger: Any = None
        self.is_refused = False
        """Whether the request was answered with an error, so that the rest of it is dropped."""

    def gotLength(self, length: int | None) -> None:
        self._is_chunked = length is None
        too_large = length is not None and length > self.server.max_body_bytes
        super().gotLength(0 if too_large else length)
        if too_large:
            # Otherwise "100 Continue" would follow the refusal.
            self.requestHeaders.removeHeader(b"Expect")
            self._refuse_too_large()

    def handleContentChunk(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self.is_refused:
            return
        self._hold(len(data))
        self._chunks += self._is_chunked
        if self._chunks > SMALL_CHUNKS + self._received_bytes / CHUNK_BYTES:
            self._refuse(refusal(400, "Bad Request", "The request's body comes in too many small chunks."))
        elif self._received_bytes > self.server.max_body_bytes:
            self._refuse_too_large()
        elif self.server.held_bytes > self.server.max_held_bytes and self._held_bytes > SMALL_BODY_BYTES:
            self._refuse(self.server.busy)
        else:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self._hold(-self._held_bytes)
        if self.is_refused:
            self.channel.loseConnection()
        elif (fault := _framing_fault(self.requestHeaders, version)) is not None:
            self._refuse(refusal(400, "Bad Request", fault))
        else:
            super().requestReceived(command, path, version)

    def process(self) -> Any:
        # With this header, any client could set Daphne's root path.
        self.requestHeaders.removeHeader(b"Daphne-Root-Path")
        if self.server.draining:
            self.channel.persistent = False
            self.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        return super().process()

    def handle_exception(self, exception: BaseException) -> None:
        """Close the connection if a response has begun.

        A second one would end Daphne's checker for good.
        """
        if self._response_started:
            if self.channel is not None:
                self.channel.transport.abortConnection()
        else:
            super().handle_exception(exception)

    def connectionLost(self, reason: Any) -> None:
        if self._linger is not None and self._linger.active():
            self._linger.cancel()
        self._hold(-self._held_bytes)
        super().connectionLost(reason)

    def unsent_bytes(self) -> int:
        """Return how many written bytes were not sent yet; 0 if the connection is closed."""
        return 0 if self.channel is None else int(self.channel.unsent_bytes())

    async def wait_until_written(self) -> None:
        """Wait while the client has `WRITE_AHEAD_BYTES` or more to read."""
        if self.channel is not None and self.channel.unsent_bytes() >= WRITE_AHEAD_BYTES:
            await self.channel.wait_until_written()

    def _hold(self, size: int) -> None:
        """Count bytes of bodies that were not passed to an application yet."""
        self._held_bytes += size
        self.server.held_bytes += size

    def _refuse_too_large(self) -> None:
        message = f"The request's body is larger than {self.server.max_body_bytes} bytes."
        self._refuse(refusal(413, "Content Too Large", message))

    def _refuse(self, answer: bytes) -> None:
        """Answer at once, and drop the rest of the request for up to LINGER_SECONDS."""
        self.is_refused = True
        self._hold(-self._held_bytes)
        self.content.seek(0)
        self.content.truncate()
        self.channel.write(answer)
        transport = self.channel.transport
        transport.loseWriteConnection()
        self._linger = reactor.callLater(LINGER_SECONDS, transport.abortConnection)


def _framing_fault(headers: Headers, version: bytes) -> str | None:
    """Return what is wrong with headers that a proxy in front could interpret differently, or
    `None`.

    They would let it see another end of the request, or another host. Twisted itself refuses a
    doubled `Content-Length`, one beside `Transfer-Encoding`, and one that is no number.
    """
    encodings = headers.getRawHeaders(b"Transfer-Encoding", [])
    if encodings and (version != b"HTTP/1.1" or [each.lower() for each in encodings] != [b"chunked"]):
        return "Send Transfer-Encoding once, as chunked, in HTTP/1.1; or send Content-Length."
    hosts = headers.getRawHeaders(b"Host", [])
    if len(hosts) > 1 or (version == b"HTTP/1.1" and not hosts):
        return "Send the Host header once."
    return None


def _log_access(protocol: str, action: str, details: dict[str, Any]) -> None:
    if action == "complete":
        access_logger.info(
            "%s %s %s %s bytes in %.3f s",
            details["method"],
            # The query is left out, because clients sometimes put tokens there.
            details["path"].partition("?")[0],
            details["status"],
            details["size"],
            details["time_taken"],
        )
