"""An HTTP client that calls the endpoint over ASGI. It sends bodies in parts, reads frames and disconnects."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from channels.testing import ApplicationCommunicator

from mcp_app.embedded.extensions import UNSENT_BYTES
from mcp_app.protocol.headers import NAME_SOURCES
from mcp_app.routing import mcp_application
from mcp_app.transport import shutdown

VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
PATIENCE = 10.0


async def _no_site(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b"the site"})


def message(method: str, request_id: Any = 1, *, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """Return a request of the modern revision."""
    base = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}}
    return {
        "jsonrpc": "2.0",
        "id": request_id,
        "method": method,
        "params": {**params, "_meta": {**base, **(meta or {})}},
    }


def call(name: str = "work", request_id: Any = 1, *, meta: dict[str, Any] | None = None, **arguments: Any) -> Any:
    return message("tools/call", request_id, meta=meta, name=name, arguments=arguments)


_connections: list["Connection"] = []
"""Connections are kept until their test has ended, because a communicator that is deleted cancels its application."""


class Connection:
    """One HTTP request and its response."""

    def __init__(
        self,
        method: str = "POST",
        path: str = "/mcp",
        headers: dict[str, str] | None = None,
        query: str = "",
        unsent: Callable[[], int] | None = None,
        peer: str = "192.0.2.1",
    ) -> None:
        fields = {"host": "testserver", "content-type": "application/json", **(headers or {})}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in fields.items()],
            "client": (peer, 4711),
            "extensions": {} if unsent is None else {UNSENT_BYTES: unsent},
        }
        self._application = ApplicationCommunicator(mcp_application(_no_site), scope)
        _connections.append(self)
        self.status = 0
        self.headers: dict[str, str] = {}
        self._buffer = b""
        self.finished = False

    async def send(self, body: bytes, *, more: bool = False) -> None:
        await self._application.send_input({"type": "http.request", "body": body, "more_body": more})

    async def leave(self) -> None:
        """Close the connection, and wait until the application has ended."""
        await self.disconnect()
        await self._application.wait(PATIENCE)

    async def disconnect(self) -> None:
        """Close the connection without waiting."""
        await self._application.send_input({"type": "http.disconnect"})

    def stop_reading(self) -> None:
        """Make every further write of the application block."""
        self._application.output_queue._maxsize = 1
        self._application.output_queue.put_nowait({"type": "unread"})

    async def kill(self) -> None:
        """Cancel the application, as a server does when it stops."""
        self._application.future.cancel()
        await asyncio.wait([self._application.future])

    async def head(self) -> None:
        start = await self._application.receive_output(PATIENCE)
        assert start["type"] == "http.response.start"
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}

    async def body(self) -> bytes:
        while not self.finished:
            await self._more()
        return self._buffer

    async def json(self) -> Any:
        """Return the whole response, parsed from JSON."""
        await self.head()
        return json.loads(await self.body())

    async def event(self) -> Any:
        """Return the next message of an event stream, or `None` for a comment."""
        while b"\n\n" not in self._buffer:
            assert not self.finished, "the stream has ended"
            await self._more()
        frame, self._buffer = self._buffer.split(b"\n\n", 1)
        if frame.startswith(b":"):
            return None
        assert frame.startswith(b"event: message\ndata: ")
        return json.loads(frame.removeprefix(b"event: message\ndata: "))

    async def next_message(self) -> Any:
        while (found := await self.event()) is None:
            pass
        return found

    async def rest(self) -> list[Any]:
        """Return the remaining messages, until the stream ends."""
        await self.body()
        messages = []
        while self._buffer:
            if (found := await self.event()) is not None:
                messages.append(found)
        return messages

    async def silent(self) -> bool:
        """Wait until the application has ended, and return whether it left no unread output."""
        await self._application.wait(PATIENCE)
        return bool(await self._application.receive_nothing(timeout=0))

    async def _more(self) -> None:
        part = await self._application.receive_output(PATIENCE)
        assert part["type"] == "http.response.body"
        self._buffer += part.get("body", b"")
        self.finished = not part.get("more_body", False)


async def post(
    body: Any, *, headers: dict[str, str] | None = None, accept: str | None = None, **options: Any
) -> Connection:
    """Post a message with its required headers. `headers` replace them, and an empty value removes a header."""
    fields = {"MCP-Protocol-Version": VERSION, "Mcp-Method": body.get("method", "")}
    if (source := NAME_SOURCES.get(body.get("method", ""))) is not None:
        fields["Mcp-Name"] = body["params"].get(source, "")
    if accept is not None:
        fields["Accept"] = accept
    fields |= headers or {}
    connection = Connection(headers={name: value for name, value in fields.items() if value != ""}, **options)
    await connection.send(json.dumps(body).encode())
    return connection


async def ask(method: str, **params: Any) -> Any:
    """Send a request and return its response, parsed from JSON."""
    return await (await post(message(method, **params))).json()


@asynccontextmanager
async def server_process() -> AsyncIterator[None]:
    """Run the block as a server process that is drained at the end. Fails if a task outlives it."""
    try:
        try:
            yield
        finally:
            await shutdown.drain()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        _, left = await asyncio.wait(others, timeout=PATIENCE) if others else (None, None)
        assert not left, left
    finally:
        _connections.clear()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario in a new event loop, as a server process of its own."""

    async def play() -> None:
        async with server_process():
            await scenario

    asyncio.run(play())
