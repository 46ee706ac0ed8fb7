"""Requests as the embedded server receives them: what is refused before an application hears of it.

It owns the limits on bodies while they arrive, on each and on all together, and what becomes of a connection whose
application failed. It refuses to read bodies.
"""

# ruff: noqa: N802  (Twisted's method names)

import asyncio
from typing import Any
from weakref import WeakSet

from daphne.http_protocol import HTTPFactory, WebRequest
from twisted.internet import reactor as _reactor

from mcp_app.embedded.server_connections import EmbeddedChannel
from mcp_app.embedded.server_limits import LINGER_SECONDS, RefusedConnection, refusal

#: What runs is more than the interface Twisted declares.
reactor: Any = _reactor

#: What an application may have written and its client not taken; above `MAX_UNSENT_BYTES`, at which ours ends a stream.
WRITE_AHEAD_BYTES = 4 * 1024 * 1024
#: Of a body: who sends no more is refused for nothing that others hold.
SMALL_BODY_BYTES = 64 * 1024


class EmbeddedRequest(WebRequest):
    """Daphne's request with a bounded body."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.channel.factory.channels.add(self.channel)
        self._received_bytes = 0
        self._held_bytes = 0
        self._refused = False
        self._linger: Any = None

    def gotLength(self, length: int | None) -> None:
        too_large = length is not None and length > self.server.max_body_bytes
        super().gotLength(0 if too_large else length)
        if too_large:
            # else "100 Continue" would follow the refusal
            self.requestHeaders.removeHeader(b"Expect")
            self._refuse_too_large()

    def handleContentChunk(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._refused:
            return
        self._hold(len(data))
        if self._received_bytes > self.server.max_body_bytes:
            self._refuse_too_large()
        elif self.server.held_bytes > self.server.max_held_bytes and self._held_bytes > SMALL_BODY_BYTES:
            self._refuse(self.server.busy)
        else:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self._hold(-self._held_bytes)
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
        self._hold(-self._held_bytes)
        super().connectionLost(reason)

    def unsent_bytes(self) -> int:
        """What was written to this connection and has not left it; 0 once the connection is gone."""
        return 0 if self.channel is None else int(self.channel.unsent_bytes())

    async def taken(self) -> None:
        """Wait while the client has `WRITE_AHEAD_BYTES` or more still to take."""
        if self.channel is not None and self.channel.unsent_bytes() >= WRITE_AHEAD_BYTES:
            await self.channel.room()

    def _hold(self, size: int) -> None:
        """Count bytes of a body that no application has yet."""
        self._held_bytes += size
        self.server.held_bytes += size

    def _refuse_too_large(self) -> None:
        message = f"The request's body is larger than {self.server.max_body_bytes} bytes."
        self._refuse(refusal(413, "Content Too Large", message))

    def _refuse(self, answer: bytes) -> None:
        """Answer at once, and drop what still arrives until the client closes or has had its time."""
        self._refused = True
        self._hold(-self._held_bytes)
        self.content.seek(0)
        self.content.truncate()
        self.channel.write(answer)
        transport = self.channel.transport
        transport.loseWriteConnection()
        self._linger = reactor.callLater(LINGER_SECONDS, transport.abortConnection)


class EmbeddedFactory(HTTPFactory):
    """Builds `EmbeddedChannel`s with `EmbeddedRequest`s on them; knows the connections, and those that made one."""

    protocol = EmbeddedChannel

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.channels: WeakSet[Any] = WeakSet()
        self.transports: WeakSet[Any] = WeakSet()

    def buildProtocol(self, addr: Any) -> Any:
        if self._is_full():
            return RefusedConnection(self.server.busy)
        channel = super().buildProtocol(addr)
        channel.requestFactory = EmbeddedRequest
        return channel

    async def close_connections(self, seconds: float) -> None:
        """Close every connection once what was written has left; after `seconds` whatever is left."""
        for transport in self._open():
            transport.loseConnection()
        deadline = asyncio.get_running_loop().time() + seconds
        while self._open() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 (Twisted tells nobody)
            await asyncio.sleep(0.01)
        for transport in self._open():
            transport.abortConnection()

    def _is_full(self) -> bool:
        # Those that were closed are counted out where it matters only: they are forgotten soon.
        at_most: int = self.server.max_connections
        return len(self.transports) >= at_most and sum(bool(each.connected) for each in self.transports) >= at_most

    def _open(self) -> list[Any]:
        transports = [channel.transport for channel in self.channels]
        return [transport for transport in transports if transport is not None and transport.connected]
