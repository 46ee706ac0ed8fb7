"""The only writer of HTTP responses: JSON, event streams, refusals, 202. Every write tolerates a peer that is gone.

Refuses to buffer without limit: a peer that does not read is treated as one that left.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp_app.conf import settings
from mcp_app.embedded.extensions import UNSENT_BYTES
from mcp_app.protocol import sse
from mcp_app.protocol.errors import HTTPFields, Rejection
from mcp_app.protocol.jsonrpc import encode, error_response
from mcp_app.transport.at_once import Begun
from mcp_app.transport.responder import PeerGoneError

Send = Callable[[dict[str, Any]], Awaitable[None]]

LOOK_SECONDS = 0.01
"""How often it is looked whether a client has taken something: no server tells."""
CLOSED_BY_UVLOOP = "the handler is closed"
"""How the RuntimeError ends by which uvloop says that a connection has ended: asyncio's own loop passes over that."""


class Response:
    """The response to one request: exactly one of `json`, `reject`, `accepted` or an event stream."""

    __slots__ = ("_send_to_server", "_unsent", "_written_at", "fields", "finished", "started")
    shared = False

    def __init__(self, send: Send, scope: Mapping[str, Any]) -> None:
        self._send_to_server = send
        self._unsent: Callable[[], int] | None = (scope.get("extensions") or {}).get(UNSENT_BYTES)
        self._written_at = time.monotonic()
        self.fields: HTTPFields = ()
        """Fields that the response is to carry, whatever it is."""
        self.started = False
        self.finished = False

    @property
    def silent_seconds(self) -> float:
        """Since the last write, or since the request."""
        return time.monotonic() - self._written_at

    async def json(self, message: Mapping[str, Any], status: int = 200, fields: HTTPFields = ()) -> None:
        """A JSON-RPC message, or another object, as the whole response."""
        await self._json(encode(message), status, fields)

    async def head(self, message: Mapping[str, Any], fields: HTTPFields = (), status: int = 200) -> None:
        """The same without its body: the answer to HEAD."""
        await self._json(encode(message), status, fields, bodiless=True)

    async def json_array(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """JSON-RPC messages as the whole response: the answer to a batch."""
        await self._json(b"[" + b",".join(map(encode, messages)) + b"]", 200, ())

    async def _json(self, body: bytes, status: int, fields: HTTPFields, *, bodiless: bool = False) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self._whole(status, ((b"content-type", b"application/json"), length, *fields), b"" if bodiless else body)

    async def reject(self, rejection: Rejection) -> None:
        if rejection.bodiless:
            await self.empty(rejection.status, rejection.headers)
        else:
            await self.json(error_response(rejection), rejection.status, rejection.headers)

    async def accepted(self) -> None:
        """202 without a body: what a notification gets."""
        await self.empty(202, ())

    async def start_events(self) -> None:
        await self._start(200, sse.RESPONSE_HEADERS)
        # Some servers hold the head back until there is a body: the client is to see at once that its stream is open.
        await self.keep_alive()

    async def event(self, message: Mapping[str, Any], *, last: bool = False) -> None:
        await self.frame(sse.event(message), last=last)

    async def frame(self, frame: bytes, *, last: bool = False) -> None:
        """One event of a started event stream, as it goes over the wire."""
        await self._write(frame, last=last)

    async def keep_alive(self) -> None:
        await self._write(sse.KEEP_ALIVE)

    async def done(self) -> None:
        """200 without a body."""
        await self.empty(200, ())

    async def end(self) -> None:
        """End a started response that will get no answer; nothing when it has ended."""
        if self.started and not self.finished:
            await self._write(b"", last=True)

    async def empty(self, status: int, fields: HTTPFields) -> None:
        """A response without a body."""
        await self._whole(status, ((b"content-length", b"0"), *fields), b"")

    async def _start(self, status: int, fields: HTTPFields) -> None:
        await self._send(self._head(status, fields))

    async def _whole(self, status: int, fields: HTTPFields, body: bytes) -> None:
        head = self._head(status, fields)
        await self._refuse_to_pile_up(head)
        await self._send(head, _part(body, last=True))
        self._written_at = time.monotonic()
        self.finished = True

    async def _write(self, body: bytes, *, last: bool = False) -> None:
        await self._refuse_to_pile_up()
        await self._send(_part(body, last=last))
        self._written_at = time.monotonic()
        self.finished = last

    def _head(self, status: int, fields: HTTPFields) -> dict[str, Any]:
        self.started = True
        return {"type": "http.response.start", "status": status, "headers": [*fields, *self.fields]}

    async def _refuse_to_pile_up(self, *before: dict[str, Any]) -> None:
        """A server that keeps what it is given writes it in its own time: also to a client that reads as it comes."""
        if self._unsent is None:
            return
        give_up_at = time.monotonic() + settings.STALL_TIMEOUT
        while self._unsent() > settings.MAX_UNSENT_BYTES:
            if time.monotonic() > give_up_at:
                self.finished = True
                await self._send(*map(_without_length, before), _part(b"", last=True))
                raise PeerGoneError("the client does not read what it is sent")
            await asyncio.sleep(LOOK_SECONDS)

    async def _send(self, *messages: dict[str, Any]) -> None:
        try:
            for number, message in enumerate(messages):
                if not (writing := Begun(self._send_to_server(message))).is_done:
                    await self._wait_for(writing, messages[number + 1 :])
                    break
        except TimeoutError as error:
            self.finished = True
            raise PeerGoneError("the client does not read what it is sent") from error
        except (OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not str(error).endswith(CLOSED_BY_UVLOOP):
                raise
            self.finished = True
            raise PeerGoneError("the client is gone") from error

    async def _wait_for(self, writing: Begun[None], others: Sequence[dict[str, Any]]) -> None:
        async with asyncio.timeout(settings.STALL_TIMEOUT):
            await writing
            for message in others:
                await self._send_to_server(message)


def _without_length(head: dict[str, Any]) -> dict[str, Any]:
    """Of a response that does not get the body that was meant."""
    fields = [field for field in head["headers"] if field[0] != b"content-length"]
    return {**head, "headers": fields}


def _part(body: bytes, *, last: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": not last}
