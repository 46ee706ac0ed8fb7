"""A client of a legacy revision, with a session, messages, and event streams with ids."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.asgi_client import Connection

BOTH = "application/json, text/event-stream"
LATEST = "2025-11-25"


def request(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def call(name: str = "work", request_id: Any = 1, *, token: Any = None, **arguments: Any) -> dict[str, Any]:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return request("tools/call", request_id, name=name, arguments=arguments, **meta)


@dataclass(frozen=True)
class Event:
    """One server-sent event. A field that is absent is `None`."""

    id: str | None = None
    retry: str | None = None
    message: Any = None


def steps(events: list[Event]) -> list[float]:
    """Return the progress values in these events. All of their notifications must report progress."""
    messages = [event.message for event in events if event.message]
    return [message["params"]["progress"] for message in messages if "method" in message]


class Stream(Connection):
    """A connection whose event stream is read with its ids."""

    async def next_event(self) -> Event:
        """Return the next event, skipping comments."""
        while True:
            while b"\n\n" not in self._buffer:
                assert not self.finished, "the stream has ended"
                await self._more()
            frame, self._buffer = self._buffer.split(b"\n\n", 1)
            if not frame.startswith(b":"):
                return _parse(frame.decode())

    async def events(self) -> list[Event]:
        """Return the remaining events without comments, until the stream ends."""
        await self.body()
        found = []
        while self._buffer:
            frame, self._buffer = self._buffer.split(b"\n\n", 1)
            if not frame.startswith(b":"):
                found.append(_parse(frame.decode()))
        return found


def _parse(frame: str) -> Event:
    fields = dict(line.split(": ", 1) for line in frame.split("\n"))
    data = fields.get("data")
    return Event(fields.get("id"), fields.get("retry"), json.loads(data) if data else None)


@dataclass
class Client:
    """A client and its session, if it has opened one."""

    version: str = LATEST
    session: str | None = None
    capabilities: dict[str, Any] = field(default_factory=dict)
    path: str = "/mcp"
    peer: str = "192.0.2.1"

    @classmethod
    async def opened(
        cls, version: str = LATEST, *, path: str = "/mcp", peer: str = "192.0.2.1", **capabilities: Any
    ) -> "Client":
        client = cls(version, capabilities=capabilities, path=path, peer=peer)
        answer = await client.initialize()
        assert answer["result"]["protocolVersion"] == version
        accepted = await client.post(notification("notifications/initialized"))
        assert await accepted.body() == b""
        return client

    async def initialize(self, **changes: Any) -> Any:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": info, **changes}
        stream = await self.post(request("initialize", 0, **params), {"MCP-Protocol-Version": ""})
        answer = json.loads(await stream.body())
        self.session = stream.headers.get("mcp-session-id")
        return answer

    async def post(self, body: Any, headers: dict[str, str] | None = None, *, accept: str = BOTH) -> Stream:
        """Send a body, and wait for the head of the response unless the body contains a call.

        The test itself waits for the response to a call.
        """
        stream = await self.begin(body, headers, accept=accept)
        messages = body if isinstance(body, list) else [body]
        if not any(isinstance(message, dict) and message.get("method") == "tools/call" for message in messages):
            await stream.head()
        return stream

    async def begin(self, body: Any, headers: dict[str, str] | None = None, *, accept: str = BOTH) -> Stream:
        """Send a body without waiting for the response."""
        stream = Stream(path=self.path, peer=self.peer, headers=self._fields({"Accept": accept, **(headers or {})}))
        await stream.send(json.dumps(body).encode())
        return stream

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return its response, parsed from JSON."""
        return json.loads(await (await self.post(request(method, **params))).body())

    async def get(self, last_event: str | None = None, headers: dict[str, str] | None = None) -> Stream:
        fields = {"Accept": "text/event-stream", "Last-Event-ID": last_event or "", **(headers or {})}
        stream = Stream("GET", self.path, peer=self.peer, headers=self._fields(fields))
        await stream.send(b"")
        await stream.head()
        return stream

    async def delete(self) -> Stream:
        stream = Stream("DELETE", self.path, peer=self.peer, headers=self._fields({}))
        await stream.send(b"")
        await stream.head()
        return stream

    def _fields(self, changes: dict[str, str]) -> dict[str, str]:
        fields = {"MCP-Protocol-Version": self.version, "Mcp-Session-Id": self.session or "", **changes}
        return {name: value for name, value in fields.items() if value}

    async def reply(self, request_id: Any, result: Any = None, *, error: Any = None) -> Stream:
        """Answer a request from the server with a result, or with an error if one is given."""
        answer = {"result": result} if error is None else {"error": error}
        told = await self.post({"jsonrpc": "2.0", "id": request_id, **answer})
        await told.body()
        return told
