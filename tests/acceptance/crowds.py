"""Many clients of one server at once, and their cost: the server's memory, and its time to answer other requests."""

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
"""In KiB, the kernel's unit for memory."""
DISCOVER_SECONDS: Final = 10.0
"""Ten times the promised time, because the machine is shared. docs/project/reliability.md has the measured times."""


def resident(pid: int) -> int:
    """Return the resident memory of a process in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def raise_descriptor_limit(wanted: int) -> None:
    """Raise the limit of open files for this process and the programs that it starts from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"the system allows {hard} open files, {wanted} are needed"
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def request_bytes(body: Mapping[str, Any], *, accept: str = BOTH, **headers: str) -> bytes:
    """Return the bytes of one modern request."""
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
    """Return the socket of a client that sent one request, reads no response, and has a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(request_bytes(body))
    return client


class Watched:
    """Observations of a server: its largest memory in KiB, and its slowest answer to `server/discover` in seconds."""

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
    """Send `server/discover` requests during the block, each on a new connection. Fail if one fails or is late."""
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
            except Exception as error:  # raised again by the waiting thread
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
    """Append the measured values to the file that `MCP_TEST_MEASURES` names, for docs/project/reliability.md."""
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
        """Open a connection and send the data on it."""
        stream = await asyncio.open_connection("127.0.0.1", self._port)
        self.streams.append(stream)
        stream[1].write(data)
        await stream[1].drain()
        return stream

    async def leave(self) -> None:
        """Close all connections at once, by RST."""
        for _, writer in self.streams:
            writer.transport.abort()
        for _, writer in self.streams:
            with suppress(OSError):
                await writer.wait_closed()
        self.streams.clear()
