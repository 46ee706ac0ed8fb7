"""Limits on connections to the embedded server, below the requests on them: how many, and how long each may take to say
what its client wants.

Owns the deadlines for a request's head and body, each counted from its start, so that a trickle does not put them off,
and the refusal of connections beyond a number. Refuses to look inside a request: `server_requests.py` does. What is
refused here was not read, so that its error has no id.
"""

# ruff: noqa: N802  (Twisted's method names)

import json
from typing import Any, Final
from weakref import WeakSet

from twisted.internet import reactor as _reactor
from twisted.internet.protocol import Protocol
from twisted.web.http import HTTPChannel

#: What runs is more than Twisted declares.
reactor: Any = _reactor
_Channel: Any = HTTPChannel
_Protocol: Any = Protocol

#: Seconds in which a refused client may go on sending, so that it reads the answer and not a reset.
LINGER_SECONDS: Final = 3.0
#: Refused connections that are given that time at once; what is more is closed without a word.
MAX_LINGERING: Final = 64


def refusal(status: int, phrase: str, message: str, *, retry_after: int | None = None) -> bytes:
    """A whole HTTP response that refuses what was not read; its status is the JSON-RPC code as well."""
    error: dict[str, Any] = {"code": status, "message": message}
    wait = b""
    if retry_after is not None:
        error["data"] = {"retryAfter": retry_after}
        wait = b"Retry-After: %d\r\n" % retry_after
    body = json.dumps({"jsonrpc": "2.0", "error": error}).encode()
    head = b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nConnection: close\r\n" % (status, phrase.encode())
    return head + wait + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class TimedChannel(_Channel):
    """One connection, and the request that is arriving on it."""

    def __init__(self) -> None:
        super().__init__()
        self._deadline: Any = None

    def connectionMade(self) -> None:
        super().connectionMade()
        self.factory.transports.add(self.transport)
        self._expect(self.factory.server.head_timeout)

    def dataReceived(self, data: bytes) -> None:
        if self._deadline is None and not self._handlingRequest:
            self._expect(self.factory.server.head_timeout)
        super().dataReceived(data)

    def allHeadersReceived(self) -> None:
        self._expect(self.factory.server.body_timeout)
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        self._expect(None)
        super().allContentReceived()

    def requestDone(self, request: Any) -> None:
        if any(self._dataBuffer) and self.persistent:
            # a part of the next request is here already, and maybe all of it
            self._expect(self.factory.server.head_timeout)
        super().requestDone(request)

    def connectionLost(self, reason: Any) -> None:
        self._expect(None)
        super().connectionLost(reason)

    def _expect(self, seconds: float | None) -> None:
        """Give what comes next that long from now; None: as long as it takes."""
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None if seconds is None else reactor.callLater(seconds, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if self.requests:
            self.transport.write(refusal(408, "Request Timeout", "The request took too long to arrive."))
        self.transport.loseConnection()
        # what a client does not read would keep the connection
        reactor.callLater(LINGER_SECONDS, self.transport.abortConnection)


class RefusedConnection(_Protocol):
    """A connection too many: told so, and closed."""

    lingering: WeakSet[Any] = WeakSet()

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connectionMade(self) -> None:
        if sum(bool(each.connected) for each in self.lingering) >= MAX_LINGERING:
            self.transport.abortConnection()
            return
        self.lingering.add(self.transport)
        self.transport.write(self._answer)
        self.transport.loseWriteConnection()
        reactor.callLater(LINGER_SECONDS, self.transport.abortConnection)
