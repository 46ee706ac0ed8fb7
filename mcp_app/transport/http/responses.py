"""Writes HTTP responses over ASGI: JSON, event streams, rejections, and responses without a body.

Writing to a client that has left raises `PeerGoneError`. So does writing to a client that does not
read, because no response is buffered without limit.
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
from mcp_app.protocol.sse import EventId
from mcp_app.transport.serving.responder import PeerGoneError

Send = Callable[[dict[str, Any]], Awaitable[None]]

POLL_SECONDS = 0.01
"""How often a full buffer is checked. No web server reports that a client has read."""
CLOSED_BY_UVLOOP = "the handler is closed"
"""The end of the `RuntimeError` that uvloop raises for a closed connection. asyncio's own loop
ignores such writes."""


def local_path(scope: Mapping[str, Any]) -> str:
    """Return the path below the mount of the application.

    A root path that is not a prefix of the path is ignored.

    Daphne takes the root path from the client.
    """
    path, root = str(scope["path"]), str(scope.get("root_path") or "").rstrip("/")
    return path.removeprefix(root) if path.startswith(root + "/") else path


class EndpointResponse:
    """The response to one request: `json`, `reject`, `accepted` or an event stream."""

    __slots__ = ("_send_to_server", "_unsent", "_written_at", "fields", "finished", "started")
    shared = False

    def __init__(self, send: Send, scope: Mapping[str, Any]) -> None:
        self._send_to_server = send
        self._unsent: Callable[[], int] | None = (scope.get("extensions") or {}).get(UNSENT_BYTES)
        self._written_at = time.monotonic()
        self.fields: HTTPFields = ()
        """Header fields that every response carries."""
        self.started = False
        self.finished = False

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last write, or since the request."""
        return time.monotonic() - self._written_at

    async def json(
        self,
        message: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        status: int = 200,
        fields: HTTPFields = (),
        *,
        bodiless: bool = False,
    ) -> None:
        """Send a JSON object, or a batch of them, as the whole response. `bodiless` is for HEAD."""
        body = encode(message) if isinstance(message, Mapping) else b"[" + b",".join(map(encode, message)) + b"]"
        length = (b"content-length", str(len(body)).encode())
        await self._whole(status, ((b"content-type", b"application/json"), length, *fields), b"" if bodiless else body)

    async def reject(self, rejection: Rejection) -> None:
        if rejection.bodiless:
            await self.empty(rejection.status, rejection.headers)
        else:
            await self.json(error_response(rejection), rejection.status, rejection.headers)

    async def accepted(self) -> None:
        """Send 202 without a body, the response to a notification."""
        await self.empty(202, ())

    async def start_events(self) -> None:
        await self._send(self._head(200, sse.RESPONSE_HEADERS))
        # Some web servers hold the head back until there is a body, but the client must see at once
        # that it is open.
        await self.keep_alive()

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        await self.frame(sse.event(message, event_id), last=last)

    async def frame(self, frame: bytes, *, last: bool = False) -> None:
        """Send an encoded event on a started event stream."""
        await self._write(frame, last=last)

    async def keep_alive(self) -> None:
        await self._write(sse.KEEP_ALIVE)

    async def done(self) -> None:
        """Send 200 without a body."""
        await self.empty(200, ())

    async def end(self) -> None:
        """End an event stream without a response, or send 202 if no stream has begun."""
        if not self.started:
            await self.accepted()
        elif not self.finished:
            await self._write(b"", last=True)

    async def empty(self, status: int, fields: HTTPFields) -> None:
        """Send a response without a body."""
        await self._whole(status, ((b"content-length", b"0"), *fields), b"")

    async def _whole(self, status: int, fields: HTTPFields, body: bytes) -> None:
        head = self._head(status, fields)
        await self._wait_for_buffer(head)
        await self._send(head, _part(body, last=True))
        self._written_at = time.monotonic()
        self.finished = True

    async def _write(self, body: bytes, *, last: bool = False) -> None:
        await self._wait_for_buffer()
        await self._send(_part(body, last=last))
        self._written_at = time.monotonic()
        self.finished = last

    def _head(self, status: int, fields: HTTPFields) -> dict[str, Any]:
        self.started = True
        return {"type": "http.response.start", "status": status, "headers": [*fields, *self.fields]}

    async def _wait_for_buffer(self, *before: dict[str, Any]) -> None:
        """Wait while the web server's buffer is full.

        Raise `PeerGoneError` if the client does not read in time.
        """
        if self._unsent is None:
            return
        give_up_at = time.monotonic() + settings.STALL_TIMEOUT
        while self._unsent() > settings.MAX_UNSENT_BYTES:
            if time.monotonic() > give_up_at:
                self.finished = True
                await self._send(*map(_without_length, before), _part(b"", last=True))
                raise PeerGoneError("the client does not read the response")
            await asyncio.sleep(POLL_SECONDS)

    async def _send(self, *messages: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(settings.STALL_TIMEOUT):
                for message in messages:
                    await self._send_to_server(message)
        except TimeoutError as error:
            self.finished = True
            raise PeerGoneError("the client does not read the response") from error
        except (OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not str(error).endswith(CLOSED_BY_UVLOOP):
                raise
            self.finished = True
            raise PeerGoneError("the client has disconnected") from error


def _without_length(head: dict[str, Any]) -> dict[str, Any]:
    """Return the head of a response whose body is cut, without its length."""
    fields = [field for field in head["headers"] if field[0] != b"content-length"]
    return {**head, "headers": fields}


def _part(body: bytes, *, last: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": not last}
