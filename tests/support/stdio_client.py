"""A client in the server's process that uses real pipes. It writes lines, reads messages and closes its end."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.conf import DEFAULT_ENDPOINT, MIB, settings
from mcp_app.transport.server import current
from mcp_app.transport.stdio.connection import StdioConnection
from mcp_app.transport.stdio.lines import LineReader, LineWriter
from tests.support.asgi_client import PATIENCE, message
from tests.support.legacy_asgi_client import LATEST, notification, request


class Client:
    """The client's ends of the two pipes."""

    def __init__(self, outgoing: int, incoming: int) -> None:
        self.outgoing: int | None = outgoing
        self._messages = LineReader(incoming, 64 * MIB)
        self.session: asyncio.Task[None]

    async def send(self, *messages: Any) -> None:
        """Write messages. Bytes are written unchanged."""
        data = b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in messages)
        assert self.outgoing is not None
        await asyncio.to_thread(_write_all, self.outgoing, data)

    async def receive(self) -> Any:
        """Return the next message, or `None` after the last one."""
        async with asyncio.timeout(PATIENCE):
            line = await self._messages.next()
        assert line is None or isinstance(line, bytes)
        return None if line is None else json.loads(line)

    async def ask(self, method: str, request_id: Any = "asked", **params: Any) -> Any:
        """Send a request and return its response, which must be the next message."""
        await self.send(message(method, request_id, **params))
        answer = await self.receive()
        assert answer.get("id") == request_id, answer
        return answer

    async def open_session(self, version: str = LATEST, **capabilities: Any) -> Any:
        """Begin a legacy session and return the result of `initialize`."""
        info = {"name": "test", "version": "1"}
        answer = await self.ask_in_session(
            "initialize", protocolVersion=version, capabilities=capabilities, clientInfo=info
        )
        await self.send(notification("notifications/initialized"))
        return answer["result"]

    async def ask_in_session(self, method: str, request_id: Any = "asked", **params: Any) -> Any:
        """Send a request of a legacy revision and return its response."""
        await self.send(request(method, request_id, **params))
        answer = await self.receive()
        assert answer.get("id") == request_id, answer
        return answer

    async def cancel(self, request_id: Any, **params: Any) -> None:
        await self.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id, **params}}
        )

    async def leave(self) -> None:
        """Close this end, and wait until the connection has ended."""
        if self.outgoing is not None:
            os.close(self.outgoing)
            self.outgoing = None
        await self.ended()

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.session


@asynccontextmanager
async def connect(
    caller: "asyncio.Future[Principal] | None" = None, endpoint: str = DEFAULT_ENDPOINT
) -> AsyncIterator[Client]:
    """Connect to this process's server. The site is ready at once unless `caller` is given."""
    ready: asyncio.Future[Principal] = asyncio.get_running_loop().create_future()
    ready.set_result(local_principal(endpoint))
    incoming, to_server = os.pipe()
    from_server, outgoing = os.pipe()
    lines = LineReader(incoming, settings.MAX_BODY_BYTES)
    writer = LineWriter(outgoing, on_gone=lines.close)
    client = Client(to_server, from_server)
    client.session = asyncio.create_task(StdioConnection(current(), lines, writer, caller or ready, endpoint).run())
    try:
        yield client
        await client.leave()
        await writer.close()
    finally:
        lines.close()
        for descriptor in (incoming, outgoing, from_server):
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    with suppress(BrokenPipeError):
        while rest:
            rest = rest[os.write(descriptor, rest) :]
