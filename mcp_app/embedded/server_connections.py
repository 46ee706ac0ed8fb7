"""Connections to the embedded server, below the requests on them: that a client's end is noticed, whatever it does.

It owns what Twisted's own connections lack for that: reading goes on behind a running request, a client whose machine
is silent is given up, and writers can wait for a client that reads slowly. It refuses to know what a request is.
"""

# ruff: noqa: N802  (Twisted's method names)

import asyncio
import socket
from typing import Any, Final

from mcp_app.embedded.server_limits import TimedChannel

PIPELINED_BYTES: Final = 64 * 1024
"""What a client may send behind a request that is still served; RFC 9112, 9.3.2 asks it to send nothing."""
_PROBES: Final = 3


class EmbeddedChannel(TimedChannel):
    """One connection of a client."""

    def __init__(self) -> None:
        super().__init__()
        self._dataBuffer: list[bytes] = []
        self._room = asyncio.Event()
        self._room.set()

    def connectionMade(self) -> None:
        super().connectionMade()
        give_up_when_silent(self.transport.getHandle(), self.factory.server.vanished_after)

    def rawDataReceived(self, data: bytes) -> None:
        """Read on behind a running request: Twisted would pause, and never see that the client has left."""
        if not self._handlingRequest:
            super().rawDataReceived(data)
            return
        behind = b"".join((*self._dataBuffer, data))
        if len(behind) > PIPELINED_BYTES:
            self.transport.abortConnection()
        else:
            self._dataBuffer = [behind]

    def pauseProducing(self) -> None:
        """The client does not take what is written."""
        self._room.clear()
        super().pauseProducing()

    def resumeProducing(self) -> None:
        """The client has taken all of it."""
        self._room.set()
        super().resumeProducing()

    def connectionLost(self, reason: Any) -> None:
        self._room.set()
        super().connectionLost(reason)

    def unsent_bytes(self) -> int:
        """What was written and has not left this process; 0 once the connection is gone."""
        transport = self.transport
        if transport is None:
            return 0
        # Twisted keeps two buffers and tells their sum to nobody.
        return len(transport.dataBuffer) - int(transport.offset) + int(transport._tempDataLen)

    async def room(self) -> None:
        """Wait until the client has taken what was written, or is gone."""
        await self._room.wait()


def give_up_when_silent(connection: socket.socket, seconds: float) -> None:
    """Have the system end a connection whose peer acknowledges nothing for that long, asked or written to.

    As far as the system knows the options; elsewhere the system's own patience holds.
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
