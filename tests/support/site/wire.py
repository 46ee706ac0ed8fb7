"""A raw MCP client on the standard library's HTTP client: one connection, whose end the test controls.

It reads a response as it arrives, and disconnects by FIN, by RST or by a half close. It sets the headers that MCP
requires, and does not interpret messages.
"""

import json
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from itertools import count
from typing import Any, Final

from tests.support.waiting import PATIENCE

VERSION: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
BOTH: Final = "application/json, text/event-stream"
JSON: Final = "application/json"

CHUNK: Final = 50_000

RequestId = str | int

_numbers = count(1)


def message(
    method: str, request_id: RequestId | None = None, *, meta: Mapping[str, Any] | None = None, **params: Any
) -> dict[str, Any]:
    """Return a modern request, with a new id unless one is given."""
    own = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}}
    return {
        "jsonrpc": "2.0",
        "id": f"acceptance-{next(_numbers)}" if request_id is None else request_id,
        "method": method,
        "params": {**params, "_meta": {**own, **(meta or {})}},
    }


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return message("tools/call", name=tool, arguments=arguments)


def text(result: Mapping[str, Any]) -> str:
    """Return the text of a CallToolResult's first block."""
    return str(result["content"][0]["text"])


def _name(params: Mapping[str, Any]) -> str | None:
    """Return the value of the header `Mcp-Name`, or `None`."""
    return next((params[member] for member in ("name", "uri", "taskId") if member in params), None)


def own_headers(body: Mapping[str, Any], accept: str) -> dict[str, str]:
    """Return the headers that a modern message requires."""
    return {
        "Content-Type": JSON,
        "Accept": accept,
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": body["method"],
        **({"Mcp-Name": name} if (name := _name(body["params"])) is not None else {}),
    }


class Connection:
    """One TCP connection to one server, for one request at a time."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.request_id: RequestId = ""
        self._http = HTTPConnection(host, port, timeout=PATIENCE * 2)
        self._http.connect()
        assert isinstance(self._http.sock, socket.socket)
        # Kept, because HTTPConnection drops its socket when the server is going to close the connection.
        self._socket = self._http.sock
        self._response: HTTPResponse | None = None

    def post(self, body: Mapping[str, Any], *, accept: str = BOTH, headers: Mapping[str, str] | None = None) -> None:
        """Send one message with its required headers. `headers` are added to them or replace them."""
        self.request_id = body["id"]
        self.send(json.dumps(body).encode(), {**own_headers(body, accept), **(headers or {})})

    def send(self, body: bytes, headers: Mapping[str, str], method: str = "POST") -> None:
        self._response = None
        self._http.request(method, "/mcp", body, dict(headers))

    def send_part(self, body: bytes, promised: int) -> None:
        """Send the head of a request, and less of its body than the head promises."""
        self._http.putrequest("POST", "/mcp")
        self._http.putheader("Content-Type", JSON)
        self._http.putheader("Content-Length", str(promised))
        self._http.endheaders(body)

    def send_raw(self, data: bytes) -> None:
        """Send raw bytes after the data that was sent before."""
        self._socket.sendall(data)

    def send_until_refused(self, size: int, *, chunked: bool) -> None:
        """Send a request with a body of `size` bytes, or of as many as the server accepts."""
        self._http.putrequest("POST", "/mcp")
        self._http.putheader("Content-Type", JSON)
        self._http.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(size))))
        self._http.endheaders()
        part = bytes(CHUNK)
        framed = b"%x\r\n%b\r\n" % (CHUNK, part) if chunked else part
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(size // CHUNK):
                self._socket.sendall(framed)

    @property
    def local_port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def response(self) -> HTTPResponse:
        """The response, once its head has arrived."""
        if self._response is None:
            self._response = self._http.getresponse()
        return self._response

    @property
    def is_stream(self) -> bool:
        return self.response.headers.get_content_type() == "text/event-stream"

    def frames(self) -> Iterator[dict[str, Any] | None]:
        """Yield the messages of an event stream, and `None` for a comment or an event without data, until it ends."""
        assert self.is_stream
        lines: list[str] = []
        while line := self.response.readline().decode():
            if line != "\n":
                lines.append(line.rstrip("\n"))
                continue
            data = [part.removeprefix("data: ") for part in lines if part.startswith("data: ")]
            lines = []
            yield json.loads("\n".join(data)) if any(data) else None

    def messages(self) -> Iterator[dict[str, Any]]:
        return (frame for frame in self.frames() if frame is not None)

    def until_silent(self) -> list[dict[str, Any]]:
        """Return the messages before the next comment, which the server sends after a while without messages."""
        messages: list[dict[str, Any]] = []
        for frame in self.frames():
            if frame is None:
                return messages
            messages.append(frame)
        raise AssertionError(f"the stream ended after {messages}")

    def answer(self) -> dict[str, Any]:
        """Return the JSON-RPC response from a JSON body or an event stream, which is read to its end."""
        if self.is_stream:
            *_, last = self.messages()
        else:
            last = json.loads(self.response.read())
        return last

    def result(self) -> dict[str, Any]:
        """Return the result of the request that was sent."""
        answer = self.answer()
        assert answer["id"] == self.request_id
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def closed_by_peer(self) -> bool:
        """Wait until the server has closed the connection. Returns whether it sent nothing but an HTTP 4xx error."""
        received = b""
        with suppress(ConnectionResetError):
            while data := self._socket.recv(65536):
                received += data
        return not received or received.startswith(b"HTTP/1.1 4")

    def wait_at_most(self, seconds: float) -> None:
        """Make further reads and writes raise `TimeoutError` after `seconds`. Nothing more can be read after that."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Disconnect by FIN."""
        if self._response is not None:
            self._response.close()
        self._http.close()
        self._socket.close()

    def reset(self) -> None:
        """Disconnect by RST. Data that was sent to this client and not read is lost."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def half_close(self) -> None:
        """Stop sending, and continue to read."""
        self._socket.shutdown(socket.SHUT_WR)
