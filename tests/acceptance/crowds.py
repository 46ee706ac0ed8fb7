"""Many clients of one server at once, and what they cost it: memory, and the time in which it says that it is there."""

import asyncio
import json
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.support.site import wire
from tests.support.site.wire import BOTH, Connection, message

MIB: Final = 1024
"""In KiB, in which the kernel counts."""
DISCOVER_SECONDS: Final = 10.0
"""Ten times what is owed, as the machine is shared; what was measured is in docs/reliability.md."""


def resident(pid: int) -> int:
    """The memory that a process has, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def raise_descriptor_limit(wanted: int) -> None:
    """For this process and the programs that it starts from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"the system allows {hard} open files, {wanted} are needed"
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def request_bytes(body: Mapping[str, Any], *, accept: str = BOTH, **headers: str) -> bytes:
    """One modern request as it goes over the wire."""
    content = json.dumps(body).encode()
    fields = {
        "Host": "127.0.0.1",
        "Content-Type": wire.JSON,
        "Accept": accept,
        "MCP-Protocol-Version": wire.VERSION,
        "Mcp-Method": body["method"],
        **({"Mcp-Name": body["params"]["name"]} if "name" in body.get("params", {}) else {}),
        **headers,
        "Content-Length": str(len(content)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + content


def deaf(port: int, body: Mapping[str, Any]) -> socket.socket:
    """A client that sends one request and reads nothing of its answer, its buffer being small."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(request_bytes(body))
    return client


class Watched:
    """What was seen of a server meanwhile: its largest memory in KiB, and its slowest answer to discover in seconds."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.most = before
        self.slowest = 0.0
        self.asked = 0

    @property
    def grown(self) -> int:
        return self.most - self.before


@contextmanager
def watching(server: Any) -> Iterator[Watched]:
    """Ask it for `server/discover`, on a new connection each time; fails when it is late or answers otherwise."""
    pid, ended, failures = server.program.pid, threading.Event(), []
    seen = Watched(resident(pid))

    def watch() -> None:
        while not ended.wait(0.05):
            began_at = time.monotonic()
            try:
                client = Connection(server.port)
                try:
                    client.post(message("server/discover"))
                    assert "capabilities" in client.result()
                finally:
                    client.close()
            except Exception as error:  # told by the thread that waits for this one
                failures.append(error)
                return
            seen.slowest = max(seen.slowest, time.monotonic() - began_at)
            seen.most = max(seen.most, resident(pid))
            seen.asked += 1

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
    assert seen.asked
    assert seen.slowest < DISCOVER_SECONDS


def report(what: str, server: Any, seen: Watched) -> None:
    """For docs/reliability.md: what was measured, into the file that `MCP_TEST_MEASURES` names."""
    if path := os.environ.get("MCP_TEST_MEASURES"):
        kind = "uvicorn" if "uvicorn" in server.program.command else "daphne"
        memory = f"{seen.before} → {seen.most} KiB, then {resident(server.program.pid)}"
        with Path(path).open("a") as log:
            log.write(f"{what} ({kind}): {memory}; discover {seen.slowest:.3f} s of {seen.asked}\n")


class Crowd:
    """Connections to a local port, in one event loop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection and send that on it."""
        stream = await asyncio.open_connection("127.0.0.1", self._port)
        self.streams.append(stream)
        stream[1].write(data)
        await stream[1].drain()
        return stream

    async def leave(self) -> None:
        """All at once, by RST."""
        for _, writer in self.streams:
            writer.transport.abort()
        for _, writer in self.streams:
            with suppress(OSError):
                await writer.wait_closed()
        self.streams.clear()
