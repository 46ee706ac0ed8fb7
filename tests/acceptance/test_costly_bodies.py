"""Bodies that take long to parse delay no other request: `server/discover` is measured while they are posted.

The tests share the machine with other programs, so a delay is measured in processor time of the server's process. The
time that all its threads use between a request and its response is an upper bound of the delay.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import psutil
import pytest

from tests.support.site import guide, layouts, wire
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import Connection, message

SIZE: Final = 4_000_000
AT_ONCE: Final = 3
"""Connections that post at the same time."""
OWED_SECONDS: Final = 0.1
ROUNDS: Final = 3
"""The best round counts, because other programs share the processor's caches. A real fault shows in every round."""
PATIENCE: Final = 60.0

FORM: Final = b"--x\r\n\r\n\r\n" * (SIZE // 9)
TYPES: Final = (
    b"multipart/form-data; boundary=x",
    b"application/x-www-form-urlencoded",
    b"text/plain",
    b"application/json",
    b"",
)
NO_FORMS: Final = TYPES[2:]
"""Content types that the `daphne` command does not parse."""
ARGUMENTS: Final[dict[str, bytes]] = {
    "nested 2 MB deep": b"[" * 2_000_000,
    "empty arrays": b"[" + b"[]," * 1_300_000 + b"[]]",
    "objects": b"[" + b'{"a":1},' * 400_000 + b"{}]",
    "integers of many digits": b"[" + (b"9" * 4_000 + b",") * 900 + b"9]",
    "as many values as may be": b"[" + b"12345," * 59_900 + b"1]",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with layouts.narrow(tmp_path_factory.mktemp("costly")) as stack:
        stack.serve_from(*stack.servers, stack.start_uvicorn(), stack.start_from_guide("daphne"))
        yield stack


@pytest.fixture(params=["mcp serve", "uvicorn", "daphne"])
def server(request: pytest.FixtureRequest, site: Stack) -> Server:
    return site.servers[["mcp serve", "uvicorn", "daphne"].index(request.param)]


def a_post(content_type: bytes, body: bytes, *, chunk: int | None = None, path: bytes = b"/mcp") -> bytes:
    """Return the bytes of a POST request; with `chunk`, its body is in chunks of that many bytes."""
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n" % path
    if content_type:
        head += b"Content-Type: %b\r\n" % content_type
    if chunk is None:
        return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    parts = (body[start : start + chunk] for start in range(0, len(body), chunk))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def a_call(arguments: bytes) -> bytes:
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":%b}}}' % arguments
    )
    return a_post(wire.JSON.encode(), body)


def send(server: Server, data: bytes) -> None:
    """Send the data and wait for the start of a response. The server may close before it has read everything."""
    with suppress(ConnectionError), socket.create_connection((server.host, server.port), PATIENCE) as connection:
        connection.sendall(data)
        connection.recv(1024)


def listening_process(server: Server) -> psutil.Process:
    """Return the process that accepts connections. It may be a child of the program that was started."""
    root = psutil.Process(server.program.pid)
    [process] = [
        each
        for each in (root, *root.children(recursive=True))
        if any(
            socket.status == psutil.CONN_LISTEN and socket.laddr.port == server.port
            for socket in each.net_connections()
        )
    ]
    return process


def discover(server: Server, process: psutil.Process) -> float:
    """Send `server/discover`. Return the processor time, in seconds, of the server's process until the response."""
    before = process.cpu_times()
    connection = Connection(server.port, server.host)
    try:
        connection.post(message("server/discover"))
        assert "capabilities" in connection.result()
    finally:
        connection.close()
    after = process.cpu_times()
    return after.user + after.system - before.user - before.system


def slowest_discover(server: Server, data: bytes) -> float:
    """Send `server/discover` repeatedly while several connections send the data, and return the slowest time."""
    process = listening_process(server)
    senders = [threading.Thread(target=send, args=(server, data)) for _ in range(AT_ONCE)]
    for sender in senders:
        sender.start()
    slowest = 0.0
    while any(sender.is_alive() for sender in senders):
        slowest = max(slowest, discover(server, process))
    return max(slowest, discover(server, process))


def assert_prompt(server: Server, data: bytes, record: Callable[[str, object], None]) -> None:
    slowest: list[float] = []
    while len(slowest) < ROUNDS and min(slowest, default=OWED_SECONDS) >= OWED_SECONDS:
        slowest.append(slowest_discover(server, data))
    record("slowest_discover_ms", [round(each * 1000) for each in slowest])
    assert min(slowest) < OWED_SECONDS, slowest


@pytest.mark.fault("I11")
@pytest.mark.parametrize("chunk", [None, 64 * 1024], ids=["declared", "chunked"])
@pytest.mark.parametrize("path", [b"/mcp", b"/nowhere"])
@pytest.mark.parametrize("content_type", TYPES)
def test_I11_no_server_parses_a_body_while_others_wait(
    server: Server,
    content_type: bytes,
    path: bytes,
    chunk: int | None,
    record_property: Callable[[str, object], None],
) -> None:
    if "daphne" in server.program.command[0] and content_type not in NO_FORMS:
        pytest.skip("Daphne as it comes parses forms on its event loop: docs/how-to/deployment.md")
    assert_prompt(server, a_post(content_type, FORM, chunk=chunk, path=path), record_property)


@pytest.mark.fault("I11")
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_I11_json_that_takes_long_to_read_delays_no_other_request(
    server: Server, arguments: str, record_property: Callable[[str, object], None]
) -> None:
    assert_prompt(server, a_call(ARGUMENTS[arguments]), record_property)


@pytest.mark.fault("I11")
def test_I11_chunks_of_one_byte_delay_no_other_request(
    site: Stack, record_property: Callable[[str, object], None]
) -> None:
    server, *_ = site.servers
    assert_prompt(server, a_post(b"text/plain", FORM, chunk=1), record_property)


@pytest.mark.fault("I11")
def test_I11_daphne_as_it_comes_is_warned_of_in_its_log_and_no_other_server(site: Stack) -> None:
    for program in ("daphne", "uvicorn", "python"):
        command = guide.server_commands()[program]
        started = site.start(*command, MCPSITE_DEBUG="0", MCPSITE_HOSTS="127.0.0.1")
        server = Server(started, guide.SAYS[program])
        for _ in range(2):
            send(server, a_post(wire.JSON.encode(), b"{}"))
        server.stop()
        assert started.output().count("Daphne parses forms") == (program == "daphne"), started.output()
