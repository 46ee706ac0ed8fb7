"""A cheap client: raw keep-alive HTTP/1.1 on asyncio, requests built once, one in flight per connection.

It uses revision 2026-07-28. An error, an `isError` or a status other than 200 ends the measure.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.command import NoMeasurementError
from bench.http1 import EventReader, ResponseReader

REVISION = "2026-07-28"
META = "io.modelcontextprotocol/"
REQUEST_ID = 1
"""The id of every request. On HTTP an id identifies a request only within its own response."""

Message = dict[str, Any]
OnMessage = Callable[[Message], None]


class CallFailedError(NoMeasurementError):
    """The server did not respond with a result. The message describes the response."""


class Connection(asyncio.Protocol):
    """One TCP connection to the server."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._events = EventReader()
        self._body = bytearray()
        self._on_message: OnMessage | None = None
        self._answer: asyncio.Future[Message] | None = None
        self._result: Message | None = None

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        body = reader.feed(data)
        try:
            if reader.is_event_stream:
                for message in self._events.feed(body):
                    self._receive(message)
            else:
                self._body += body
                if reader.complete:
                    self._receive(json.loads(self._body))
        except ValueError as error:
            self._fail(f"HTTP {reader.status}, no JSON: {error}")
        if reader.complete:
            self._finish()
            if not reader.keeps_alive:
                self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection ended: {exc or 'closed'}")

    def send(self, request: bytes, on_message: OnMessage | None = None) -> asyncio.Future[Message]:
        """Send a request and return the future of its result. `on_message` receives the notifications before it.

        The future raises `CallFailedError`.
        """
        assert self._transport is not None
        self._reader, self._events, self._body = ResponseReader(), EventReader(), bytearray()
        self._on_message, self._result = on_message, None
        self._answer = asyncio.get_running_loop().create_future()
        self._answer.add_done_callback(_retrieve)
        self._transport.write(request)
        return self._answer

    def close(self) -> float:
        """Disconnect, and return the Unix time just before it."""
        now = time.time()
        if self._transport is not None:
            self._transport.close()
        return now

    def _receive(self, message: Message) -> None:
        if "method" in message:
            if self._on_message is not None:
                self._on_message(message)
            return
        result = message.get("result")
        if self._reader.status != 200 or result is None or result.get("isError"):
            self._fail(f"HTTP {self._reader.status}: {json.dumps(message)[:300]}")
        else:
            self._result = result

    def _finish(self) -> None:
        """Resolve the future, now that the response is complete and the next request may be sent."""
        if self._result is None:
            self._fail(f"HTTP {self._reader.status} without a result")
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(self._result)

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(CallFailedError(reason))


def _retrieve(answer: asyncio.Future[Message]) -> None:
    """Retrieve the error of an abandoned call, so that asyncio does not log it."""
    if not answer.cancelled():
        answer.exception()


@dataclass(frozen=True, slots=True)
class Client:
    """Connects to one server, and builds requests for it."""

    host: str
    port: int
    path: str = "/mcp"
    token: str = ""
    """The bearer token that each request carries; empty for none."""

    async def connect(self) -> Connection:
        """Raises `OSError`."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, self.host, self.port)
        return connection

    def call(self, tool: str, arguments: Message, progress_token: str | int | None = None) -> bytes:
        """Return the bytes of one `tools/call`."""
        meta = {} if progress_token is None else {"progressToken": progress_token}
        return self.request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta}, tool)

    def request(self, method: str, params: Message | None = None, name: str | None = None) -> bytes:
        """Return the bytes of one request. `name` is the value of the `Mcp-Name` field."""
        params = params or {}
        meta = {
            f"{META}protocolVersion": REVISION,
            f"{META}clientInfo": {"name": "bench", "version": "1"},
            f"{META}clientCapabilities": {},
            **params.get("_meta", {}),
        }
        message = {"jsonrpc": "2.0", "id": REQUEST_ID, "method": method, "params": {**params, "_meta": meta}}
        body = json.dumps(message, separators=(",", ":")).encode()
        fields = [
            f"POST {self.path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {REVISION}",
            f"Mcp-Method: {method}",
            *([f"Mcp-Name: {name}"] if name else []),
            *([f"Authorization: Bearer {self.token}"] if self.token else []),
            f"Content-Length: {len(body)}",
        ]
        return "\r\n".join(fields).encode() + b"\r\n\r\n" + body
