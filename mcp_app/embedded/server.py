"""The embedded web server: Daphne, with its holes for a public endpoint closed.

It owns the sockets and their end: a body over the limit is refused while it arrives (`server_requests.py`), what is
slow to arrive is given up and a connection too many refused (`server_limits.py`), an exception in mid-response ends
that connection and nothing else, and SIGINT or SIGTERM frees the port, drains, and only then stops. It refuses to know
what is served: any ASGI application will do.

Importing it installs Twisted's asyncio reactor, as `daphne.server` does: nothing may import a reactor before.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from twisted.internet import defer
from twisted.internet import reactor as _reactor
from twisted.internet.error import CannotListenError
from twisted.logger import globalLogBeginner

from mcp_app.embedded.extensions import UNSENT_BYTES
from mcp_app.embedded.server_limits import refusal
from mcp_app.embedded.server_requests import EmbeddedFactory, EmbeddedRequest

logger = logging.getLogger(__name__)
access_logger = logging.getLogger(f"{__name__}.access")

#: What runs is more than the interface Twisted declares.
reactor: Any = _reactor

Drain = Callable[[], Awaitable[None]]

BUSY = "The server is busy; try again in a moment."

#: Seconds that the last bytes get to leave once the applications have ended.
FLUSH_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ListenError(OSError):
    """The address cannot be listened on; the message says which and why."""


class EmbeddedServer(Server):
    """One listening address in front of one ASGI application. `listen`, then `run`; once per process.

    `max_body_bytes`: bytes a request's body may have, else 413. `max_held_bytes`: of all bodies that are arriving, and
    `max_connections` at once, else 503 with `retry_after` seconds. `head_timeout`, `body_timeout`: seconds from the
    first byte of a request, or its connection, to its last header, and from there to the last byte. `vanished_after`:
    seconds of silence of a client's machine, asked or written to, after which its connection ends. `ready_callable`:
    called with host and port in the event loop, once signals are handled. `drain`: awaited on the first signal, after
    the port is freed and while open requests go on; for `drain_seconds` at most, or until the second signal.
    `application_close_timeout`: seconds that an application gets to end after its client went, or after it was
    cancelled at the stop.
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
        self._listening: Any = None
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = False
        self.http_factory = EmbeddedFactory(self)
        self.ws_factory = WebSocketFactory(self, server=self.server_name)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            maxMessagePayloadSize=self.websocket_max_message_size,
            maxFramePayloadSize=self.websocket_max_frame_size,
        )

    def listen(self) -> int:
        """Bind, and return the port: a free one when 0 was asked for. Raises ListenError."""
        try:
            self._listening = reactor.listenTCP(self.port, self.http_factory, interface=self.host)
        except CannotListenError as error:
            raise ListenError(f"Cannot listen on {self.host} port {self.port}: {error.socketError}") from error
        self.port = self._listening.getHost().port
        return self.port

    def run(self) -> None:
        """Serve until a signal, or until `stop`; listens first if nobody did. Returns when all has ended."""
        if self._listening is None:
            self.listen()
        # Twisted keeps its log in memory until somebody takes it
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
        """As Daphne does, and let the application see what a slow reader has not taken yet."""
        if isinstance(protocol, EmbeddedRequest):
            scope["extensions"] = {UNSENT_BYTES: protocol.unsent_bytes}
        return super().create_application(protocol, scope)

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """As Daphne does, and hold the application up whose client does not read: Daphne would keep it all."""
        await super().handle_reply(protocol, message)
        if isinstance(protocol, EmbeddedRequest) and message.get("more_body"):
            await protocol.taken()

    def kill_all_applications(self) -> Any:
        """Cancel what still runs, without stumbling over requests that are still arriving, and not for ever."""
        return defer.Deferred.fromFuture(asyncio.ensure_future(self._end_applications()))

    def stop(self) -> None:
        """Stop at once; again, nothing more."""
        if not self._stopped:
            self._stopped = True
            super().stop()

    async def drain_and_stop(self) -> None:
        """Free the port, await `drain`, let answers leave, stop."""
        self.draining = True
        await defer.maybeDeferred(self._listening.stopListening).asFuture(asyncio.get_running_loop())
        if self._drain is not None:
            try:
                await asyncio.wait_for(self._drain(), self._drain_seconds)
            except TimeoutError:
                logger.warning("Stopping although draining has not ended in %s s", self._drain_seconds)
            except Exception:
                logger.exception("Draining failed; stopping all the same")
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
            self._stopping = asyncio.ensure_future(self.drain_and_stop())
        else:
            self._stopping.cancel()
            self.stop()


def serve(application: Any, host: str, port: int, **options: Any) -> None:
    """Listen and serve until a signal: `EmbeddedServer(...).run()`. Raises ListenError before anything runs."""
    EmbeddedServer(application, host, port, **options).run()


def _log_access(protocol: str, action: str, details: dict[str, Any]) -> None:
    if action == "complete":
        access_logger.info(
            "%s %s %s %s bytes in %.3f s",
            details["method"],
            details["path"].partition("?")[0],  # clients put tokens into queries that do not belong there
            details["status"],
            details["size"],
            details["time_taken"],
        )
