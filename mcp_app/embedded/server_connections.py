"""Connections of the embedded server, below its requests: deadlines, limits, and lost clients.

1. Deadlines for a request's head and body count from their start. So a client that sends a byte now
   and then does not extend them.
2. The server reads on while a request is served. Twisted would pause, and not notice that the
   client has closed the connection.
3. The operating system ends a connection whose client acknowledges nothing for some time
   (`detect_silent_peer`).
4. A connection beyond the limit is answered with 503 and closed (`RefusedConnection`). These need
   descriptors as well, so `PatientPort` accepts no connection while many of them are open.
5. An application can wait until its client has read what was written (`wait_until_written`).

An error that is sent from here has no JSON-RPC id, because the request was not read.
"""


# ruff: noqa: N802  (Twisted's method names)

import asyncio
import json
import socket
from typing import Any, Final

from twisted.internet import reactor as _reactor
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Port
from twisted.web.http import HTTPChannel

from mcp_app import descriptors

#: The reactor has more methods than Twisted declares.
reactor: Any = _reactor
_Channel: Any = HTTPChannel
_Protocol: Any = Protocol
_Port: Any = Port
#: How long a refused client may go on sending, so that it reads the answer and not a reset.
LINGER_SECONDS: Final = 3.0
#: If a refused client sends less than this at once, its request is taken as complete.
SMALL_REQUEST_BYTES: Final = 16 * 1024
#: Refused connections may use this part (1/n) of the reserved descriptors. When they do, no
#: connection is accepted until one of them ends.
REFUSED_SHARE: Final = 4
PIPELINED_BYTES: Final = 64 * 1024
"""The most that a client may send behind a running request (RFC 9112, 9.3.2: nothing)."""
READ_BYTES: Final = 8 * 1024
"""Received data is processed in pieces of this size, and dropped once it is not wanted."""
_PROBES: Final = 3


class EmbeddedChannel(_Channel):
    """A connection of a client, and the request that is arriving on it."""

    def __init__(self) -> None:
        super().__init__()
        self._deadline: Any = None
        self._dataBuffer: list[bytes] = []
        self._is_written = asyncio.Event()
        self._is_written.set()

    def connectionMade(self) -> None:
        super().connectionMade()
        self.factory.transports.add(self.transport)
        self._set_deadline(self.factory.server.head_timeout)
        detect_silent_peer(self.transport.getHandle(), self.factory.server.vanished_after)

    def dataReceived(self, data: bytes) -> None:
        """Process received data, unless the request was refused or the connection closes."""
        for start in range(0, len(data), READ_BYTES):
            is_refused = bool(self.requests) and self.requests[-1].is_refused
            if is_refused or self.transport is None or self.transport.disconnecting:
                return
            if self._deadline is None and not self._handlingRequest:
                self._set_deadline(self.factory.server.head_timeout)
            super().dataReceived(data[start : start + READ_BYTES])

    def lineReceived(self, line: bytes) -> None:
        """Refuse a header that continues on a second line, or has a bare CR or LF (RFC 9112, 2.2 and 5.2).

        A proxy could read it as two. Twisted before 26.10 accepts the second kind.
        """
        if line.startswith((b" ", b"\t")) or b"\r" in line or b"\n" in line:
            self.transport.write(refusal(400, "Bad Request", "Send each header on one line."))
            self.transport.loseConnection()
        else:
            super().lineReceived(line)

    def allHeadersReceived(self) -> None:
        self._set_deadline(self.factory.server.body_timeout)
        super().allHeadersReceived()

    def rawDataReceived(self, data: bytes) -> None:
        """Buffer data that is received behind a running request. Twisted would pause reading."""
        if not self._handlingRequest:
            super().rawDataReceived(data)
            return
        behind = b"".join((*self._dataBuffer, data))
        if len(behind) > PIPELINED_BYTES:
            self.transport.abortConnection()
        else:
            self._dataBuffer = [behind]

    def allContentReceived(self) -> None:
        self._set_deadline(None)
        super().allContentReceived()

    def requestDone(self, request: Any) -> None:
        if any(self._dataBuffer) and self.persistent:
            # A part of the next request has arrived, and maybe all of it.
            self._set_deadline(self.factory.server.head_timeout)
        super().requestDone(request)

    def connectionLost(self, reason: Any) -> None:
        self._is_written.set()
        self._set_deadline(None)
        super().connectionLost(reason)

    def pauseProducing(self) -> None:
        """Called by Twisted when the client does not read what is written."""
        self._is_written.clear()
        super().pauseProducing()

    def resumeProducing(self) -> None:
        """Called by Twisted when the client has read all of it."""
        self._is_written.set()
        super().resumeProducing()

    def unsent_bytes(self) -> int:
        """Return how many written bytes were not sent yet; 0 if the connection is closed."""
        transport = self.transport
        if transport is None:
            return 0
        # Twisted has two buffers and no method for the sum of their sizes.
        return len(transport.dataBuffer) - int(transport.offset) + int(transport._tempDataLen)

    async def wait_until_written(self) -> None:
        """Wait until the client has read what was written, or is gone."""
        await self._is_written.wait()

    def _set_deadline(self, seconds: float | None) -> None:
        """Set the time for the next part of a request, or remove the deadline."""
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None if seconds is None else reactor.callLater(seconds, self._time_out)

    def _time_out(self) -> None:
        self._deadline = None
        if self.requests:
            self.transport.write(refusal(408, "Request Timeout", "The request took too long to arrive."))
        self.transport.loseConnection()
        # A client that reads nothing would keep the connection open.
        reactor.callLater(LINGER_SECONDS, self.transport.abortConnection)


def detect_silent_peer(connection: socket.socket, seconds: float) -> None:
    """Let the system end a connection whose client acknowledges nothing for `seconds`.

    This applies to data and to keep-alive probes. If the system lacks an option, its own limit
    applies.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle, between = max(1, round(seconds / 2)), max(1, round(seconds / 2 / _PROBES))
    for option, value in (
        ("TCP_KEEPIDLE", idle),
        ("TCP_KEEPALIVE", idle),  # macOS
        ("TCP_KEEPINTVL", between),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", round(seconds * 1000)),
    ):
        if (number := getattr(socket, option, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)


class PatientPort(_Port):
    """A listening socket that leaves enough descriptors for connections that are refused.

    It accepts one connection in each turn of the event loop; Twisted accepts 100 and more. While
    many refused clients still read their answer, it accepts none, and new ones wait in the system's
    queue.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._refused: set[RefusedConnection] = set()

    @property
    def numberAccepts(self) -> int:
        return 1

    @numberAccepts.setter
    def numberAccepts(self, accepts: int) -> None:
        """Do nothing: Twisted sets this to the number of connections that it accepted last."""

    def refusal_begins(self, connection: "RefusedConnection") -> None:
        self._refused.add(connection)
        if len(self._refused) >= max(1, descriptors.reserved() // REFUSED_SHARE):
            self.stopReading()

    def refusal_ends(self, connection: "RefusedConnection") -> None:
        self._refused.discard(connection)
        if self.connected and not self.disconnecting:
            self.startReading()


class RefusedConnection(_Protocol):
    """A connection beyond the limit, which is answered and closed."""

    def __init__(self, answer: bytes, port: PatientPort) -> None:
        self._answer = answer
        self._port = port

    def connectionMade(self) -> None:
        self._port.refusal_begins(self)
        self.transport.write(self._answer)
        self.transport.loseWriteConnection()
        reactor.callLater(LINGER_SECONDS, self.transport.abortConnection)

    def dataReceived(self, data: bytes) -> None:
        """Close after a request that came in one piece.

        Its client sends no more, and can read the answer.
        """
        if len(data) < SMALL_REQUEST_BYTES:
            self.transport.loseConnection()

    def connectionLost(self, reason: Any) -> None:
        self._port.refusal_ends(self)


def refusal(status: int, phrase: str, message: str, *, retry_after: int | None = None) -> bytes:
    """Return a complete HTTP response for a request that was not read.

    The JSON-RPC error code is the HTTP status.
    """
    error: dict[str, Any] = {"code": status, "message": message}
    wait = b""
    if retry_after is not None:
        error["data"] = {"retryAfter": retry_after}
        wait = b"Retry-After: %d\r\n" % retry_after
    body = json.dumps({"jsonrpc": "2.0", "error": error}).encode()
    head = b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nConnection: close\r\n" % (status, phrase.encode())
    return head + wait + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
