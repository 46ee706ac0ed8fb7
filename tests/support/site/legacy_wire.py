"""A raw client of a legacy revision, with a session on any server of the site and event streams with ids."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from tests.support.site.stack import Server, Stack
from tests.support.site.wire import BOTH, JSON, Connection, RequestId

VERSION: Final = "2025-11-25"

_numbers = count(1)


@dataclass(frozen=True)
class Event:
    """One server-sent event. A field that is absent is `None`."""

    id: str | None
    retry: str | None
    message: dict[str, Any] | None

    @property
    def progress(self) -> float | None:
        """The progress that the event reports, or `None`."""
        if self.message is None or self.message.get("method") != "notifications/progress":
            return None
        return float(self.message["params"]["progress"])


def events(connection: Connection) -> Iterator[Event | None]:
    """Yield the events of a stream, and `None` for a comment, until it ends or is cut."""
    assert connection.is_stream
    lines: list[str] = []
    while line := connection.response.readline().decode():
        if line != "\n":
            lines.append(line.rstrip("\n"))
            continue
        fields = dict(part.split(": ", 1) for part in lines if not part.startswith(":"))
        lines = []
        data = fields.get("data")
        yield Event(fields.get("id"), fields.get("retry"), json.loads(data) if data else None) if fields else None


def progress_until(stream: Iterator[Event | None], done: float) -> list[Event]:
    """Return the events up to and including the one that reports this progress."""
    seen = []
    for event in stream:
        if event is not None:
            seen.append(event)
            if event.progress == done:
                return seen
    raise AssertionError(f"the stream ended after {seen}")


def asked(stream: Iterator[Event | None], method: str = "elicitation/create") -> Event:
    """Return the next message, which must be a request from the server with this method."""
    event = next(event for event in stream if event is not None and event.message is not None)
    assert event.message is not None
    assert event.message["method"] == method
    return event


class Client:
    """A client of the site. Each message goes to the server that the test names, or to the next one in turn."""

    def __init__(self, stack: Stack, user: str = "") -> None:
        self._stack = stack
        self._user = user
        self.session = ""

    @classmethod
    def opened(cls, stack: Stack, server: Server | None = None, *, user: str = "", **capabilities: Any) -> "Client":
        """Return a client that has begun a session, as this user if the site has users."""
        client = cls(stack, user)
        info = {"name": "acceptance", "version": "1"}
        answer = client.request(
            "initialize", server, protocolVersion=VERSION, capabilities=capabilities, clientInfo=info
        )
        assert answer.result()["protocolVersion"] == VERSION
        client.session = answer.response.headers["Mcp-Session-Id"]
        assert client.notify("notifications/initialized", server) == 202
        return client

    def request(self, method: str, server: Server | None = None, *, accept: str = BOTH, **params: Any) -> Connection:
        request_id = f"legacy-{next(_numbers)}"
        return self._post({"id": request_id, "method": method, "params": params}, server, accept, request_id)

    def call(
        self,
        tool: str,
        server: Server | None = None,
        *,
        accept: str = BOTH,
        token: RequestId | None = None,
        **arguments: Any,
    ) -> Connection:
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.request("tools/call", server, accept=accept, name=tool, arguments=arguments, **meta)

    def notify(self, method: str, server: Server | None = None, **params: Any) -> int:
        """Send a notification, and return the HTTP status of the response."""
        return self._post({"method": method, "params": params}, server, BOTH, "").response.status

    def reply(self, asked: Event, server: Server, result: Any) -> int:
        """Answer a request from the server, and return the HTTP status of the response."""
        assert asked.message is not None
        message = {"id": asked.message["id"], "result": result}
        return self._post(message, server, BOTH, "").response.status

    def get(self, server: Server | None = None, last_event: str = "") -> Connection:
        connection = self._stack.connect(server)
        connection.send(b"", self._fields({"Accept": "text/event-stream", "Last-Event-ID": last_event}), "GET")
        return connection

    def delete(self, server: Server | None = None) -> int:
        """End the session, and return the HTTP status of the response."""
        connection = self._stack.connect(server)
        connection.send(b"", self._fields({}), "DELETE")
        return connection.response.status

    def _post(self, message: dict[str, Any], server: Server | None, accept: str, request_id: RequestId) -> Connection:
        connection = self._stack.connect(server)
        connection.request_id = request_id
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        connection.send(body, self._fields({"Content-Type": JSON, "Accept": accept}))
        return connection

    def _fields(self, fields: dict[str, str]) -> dict[str, str]:
        version, user = VERSION if self.session else "", f"Bearer {self._user}" if self._user else ""
        own = {"MCP-Protocol-Version": version, "Mcp-Session-Id": self.session, "Authorization": user}
        named = {**own, **fields}
        return {name: value for name, value in named.items() if value}
