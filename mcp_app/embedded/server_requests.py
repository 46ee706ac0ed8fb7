"""Requests as the embedded server receives them: what is refused before an application hears of it.

It owns the limit on a body while it arrives, and what becomes of a connection whose application failed. It
refuses to read bodies, and knows of JSON-RPC only what an answer without a request looks like.
"""

# ruff: noqa: N802  (Twisted's method names)

import asyncio
import json
from typing import Any
from weakref import WeakSet

from daphne.http_protocol import HTTPFactory, WebRequest
from twisted.internet import reactor as _reactor

#: What runs is more than the interface Twisted declares.
reactor: Any = _reactor

#: Seconds in which a refused client may go on sending, so that it reads the answer and not a reset.
LINGER_SECONDS = 3.0
#: As `protocol.errors.CONTENT_TOO_LARGE`; without an id, as the request was not read.
_CONTENT_TOO_LARGE = 413


class EmbeddedRequest(WebRequest):
    """Daphne's request with a bounded body."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.channel.factory.channels.add(self.channel)
        self._received_bytes = 0
        self._refused = False
        self._linger: Any = None

    def gotLength(self, length: int | None) -> None:
        too_large = length is not None and length > self.server.max_body_bytes
        super().gotLength(0 if too_large else length)
        if too_large:
            # else "100 Continue" would follow the refusal
            self.requestHeaders.removeHeader(b"Expect")
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._refused:
            return
        if self._received_bytes > self.server.max_body_bytes:
            self._refuse()
        else:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        if self._refused:
            self.channel.loseConnection()
        else:
            super().requestReceived(command, path, version)

    def process(self) -> Any:
        # Daphne would let any client set the root path
        self.requestHeaders.removeHeader(b"Daphne-Root-Path")
        if self.server.draining:
            self.channel.persistent = False
            self.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        return super().process()

    def handle_exception(self, exception: BaseException) -> None:
        """End the connection when headers are out: a second answer would stop Daphne's checker for good."""
        if self._response_started:
            if self.channel is not None:
                self.channel.transport.abortConnection()
        else:
            super().handle_exception(exception)

    def connectionLost(self, reason: Any) -> None:
        if self._linger is not None and self._linger.active():
            self._linger.cancel()
        super().connectionLost(reason)

    def unsent_bytes(self) -> int:
        """What was written to this connection and has not left it; 0 once the connection is gone."""
        transport = None if self.channel is None else self.channel.transport
        if transport is None:
            return 0
        # Twisted keeps two buffers and tells their sum to nobody.
        return len(transport.dataBuffer) - int(transport.offset) + int(transport._tempDataLen)

    def _refuse(self) -> None:
        """Answer 413 at once, and drop what still arrives until the client closes or has had its time."""
        self._refused = True
        self.content.seek(0)
        self.content.truncate()
        message = f"The request's body is larger than {self.server.max_body_bytes} bytes."
        error = {"jsonrpc": "2.0", "error": {"code": _CONTENT_TOO_LARGE, "message": message}}
        body = json.dumps(error).encode()
        self.channel.write(
            b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        transport = self.channel.transport
        transport.loseWriteConnection()
        self._linger = reactor.callLater(LINGER_SECONDS, transport.abortConnection)


class EmbeddedFactory(HTTPFactory):
    """Builds `EmbeddedRequest`s and knows the connections that made one."""

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.channels: WeakSet[Any] = WeakSet()

    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = EmbeddedRequest
        return protocol

    async def close_connections(self, seconds: float) -> None:
        """Close every connection once what was written has left; after `seconds` whatever is left."""
        for transport in self._open():
            transport.loseConnection()
        deadline = asyncio.get_running_loop().time() + seconds
        while self._open() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 (Twisted tells nobody)
            await asyncio.sleep(0.01)
        for transport in self._open():
            transport.abortConnection()

    def _open(self) -> list[Any]:
        transports = [channel.transport for channel in self.channels]
        return [transport for transport in transports if transport is not None and transport.connected]
