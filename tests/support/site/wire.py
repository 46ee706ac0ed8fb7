"""A raw MCP client on the standard library's HTTP: one connection whose end is under the test's control.

It reads a response as it comes, and leaves by FIN, by RST or by half a close. It knows no more of MCP than headers.
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
    """A modern request; its id is one of its own unless given."""
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
    """The text of a CallToolResult's first block."""
    return str(result["content"][0]["text"])


def _name(params: Mapping[str, Any]) -> str | None:
    """What `Mcp-Name` mirrors."""
    return next((params[member] for member in ("name", "uri", "taskId") if member in params), None)


def own_headers(body: Mapping[str, Any], accept: str) -> dict[str, str]:
    """The headers that belong to a modern message."""
    return {
        "Content-Type": JSON,
        "Accept": accept,
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": body["method"],
        **({"Mcp-Name": name} if (name := _name(body["params"])) is not None else {}),
    }


class Connection:
    """One TCP connection to one server; requests one after another."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.request_id: RequestId = ""
        self._http = HTTPConnection(host, port, timeout=PATIENCE * 2)
        self._http.connect()
        assert isinstance(self._http.sock, socket.socket)
        # Kept: HTTPConnection forgets its socket when the server is going to close it.
        self._socket = self._http.sock
        self._response: HTTPResponse | None = None

    def post(self, body: Mapping[str, Any], *, accept: str = BOTH, headers: Mapping[str, str] | None = None) -> None:
        """Send one message with the headers that belong to it; `headers` are added or replace them."""
        self.request_id = body["id"]
        self.send(json.dumps(body).encode(), {**own_headers(body, accept), **(headers or {})})

    def send(self, body: bytes, headers: Mapping[str, str], method: str = "POST") -> None:
        self._response = None
        self._http.request(method, "/mcp", body, dict(headers))

    def send_part(self, body: bytes, promised: int) -> None:
        """The head of a request and less of its body than it promises."""
        self._http.putrequest("POST", "/mcp")
        self._http.putheader("Content-Type", JSON)
        self._http.putheader("Content-Length", str(promised))
        self._http.endheaders(body)

    def send_raw(self, data: bytes) -> None:
        """Whatever bytes, behind what was sent before."""
        self._socket.sendall(data)

    def send_until_refused(self, size: int, *, chunked: bool) -> None:
        """A request with a body of that many bytes, or of as many as the server lets through."""
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
        """The response's head, waited for."""
        if self._response is None:
            self._response = self._http.getresponse()
        return self._response

    @property
    def is_stream(self) -> bool:
        return self.response.headers.get_content_type() == "text/event-stream"

    def frames(self) -> Iterator[dict[str, Any] | None]:
        """What an event stream sends until it ends: messages, and None for a comment or an event without one."""
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
        """The messages before the next comment, which says that there was nothing to say for a while."""
        messages: list[dict[str, Any]] = []
        for frame in self.frames():
            if frame is None:
                return messages
            messages.append(frame)
        raise AssertionError(f"the stream ended after {messages}")

    def answer(self) -> dict[str, Any]:
        """The JSON-RPC response, in whatever form it comes; the body is read to its end."""
        if self.is_stream:
            *_, last = self.messages()
        else:
            last = json.loads(self.response.read())
        return last

    def result(self) -> dict[str, Any]:
        """The answer's result, of the request that was sent."""
        answer = self.answer()
        assert answer["id"] == self.request_id
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def closed_by_peer(self) -> bool:
        """Wait until the other side has closed the connection; whether it did, and said nothing but an error."""
        received = b""
        with suppress(ConnectionResetError):
            while data := self._socket.recv(65536):
                received += data
        return not received or received.startswith(b"HTTP/1.1 4")

    def wait_at_most(self, seconds: float) -> None:
        """From now on a read or write that takes longer raises TimeoutError, and nothing more can be read."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Leave by FIN."""
        if self._response is not None:
            self._response.close()
        self._http.close()
        self._socket.close()

    def reset(self) -> None:
        """Leave by RST: what was sent to this client and not read is lost."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def half_close(self) -> None:
        """Send no more, but go on reading."""
        self._socket.shutdown(socket.SHUT_WR)
