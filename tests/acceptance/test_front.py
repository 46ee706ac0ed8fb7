"""The reverse proxy in front of several servers: it takes them in turn, and passes disconnects to both sides."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path

import pytest

from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import LEAVE, assert_cancelled, assert_stopped
from tests.support.site import wire
from tests.support.site.front import front
from tests.support.site.stack import Stack
from tests.support.site.wire import BOTH, JSON, Connection
from tests.support.waiting import eventually

PATIENCE = 10.0
REQUEST = b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nX-Twice: 1\r\nX-Twice: 2\r\nContent-Length: 4\r\n\r\nbody"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def receive(connection: socket.socket, until: bytes) -> bytes:
    received = b""
    while until not in received:
        data = connection.recv(65536)
        assert data, f"it ended after {received!r}"
        received += data
    return received


class Upstream:
    """A server whose responses the test sends."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE)
        self.port: int = self._listening.getsockname()[1]

    def accept(self) -> socket.socket:
        connection, _ = self._listening.accept()
        connection.settimeout(PATIENCE)
        return connection

    def answer(self, text: bytes) -> None:
        """Serve one request, which has a body of two bytes."""
        with self.accept() as connection:
            receive(connection, b"\r\n\r\n{}")
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text) + text)

    def close(self) -> None:
        self._listening.close()


Upstreams = tuple[Upstream, Upstream]


@pytest.fixture
def upstreams() -> Iterator[Upstreams]:
    both = (Upstream(), Upstream())
    yield both
    for each in both:
        each.close()


@pytest.fixture
def port(upstreams: Upstreams) -> Iterator[int]:
    with front(*(each.port for each in upstreams)) as port:
        yield port


@pytest.fixture
def client(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        yield client


def test_requests_of_one_connection_go_to_the_servers_in_turn(upstreams: Upstreams, port: int) -> None:
    client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    client.connect()
    sock = client.sock
    for upstream, name in zip(upstreams * 2, (b"a", b"b", b"c", b"d"), strict=True):
        client.request("POST", "/mcp", b"{}")
        upstream.answer(name)
        assert client.getresponse().read() == name
        assert client.sock is sock
    client.close()


def test_an_idle_connection_takes_no_turn(upstreams: Upstreams, port: int) -> None:
    with ExitStack() as idle:
        for _ in range(3):
            idle.enter_context(socket.create_connection(("127.0.0.1", port)))
        client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        client.request("POST", "/mcp", b"{}")
        upstreams[0].answer(b"first")
        assert client.getresponse().read() == b"first"
        client.close()


def test_nothing_of_a_request_is_changed_but_its_connection(upstreams: Upstreams, client: socket.socket) -> None:
    client.sendall(REQUEST.replace(b"\r\nHost", b"\r\nconnection: keep-alive\r\nHost"))
    with upstreams[0].accept() as server:
        assert receive(server, b"body") == REQUEST.replace(b"4\r\n", b"4\r\nConnection: close\r\n")


def test_a_body_without_a_stated_length_is_passed_on_as_it_comes(upstreams: Upstreams, client: socket.socket) -> None:
    client.sendall(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    with upstreams[0].accept() as server:
        for chunk in (b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"):
            client.sendall(chunk)
            receive(server, chunk)


def test_an_event_reaches_the_client_while_the_response_goes_on(upstreams: Upstreams, client: socket.socket) -> None:
    client.sendall(REQUEST)
    with upstreams[0].accept() as server:
        receive(server, b"body")
        server.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        server.sendall(STREAM)
        assert b"\r\nConnection: close\r\n" in receive(client, b"chunked")
        for event in (b"6\r\none\n\n\n\r\n", b"6\r\ntwo\n\n\n\r\n"):
            server.sendall(event)
            assert event in receive(client, event)


@pytest.mark.parametrize("started", [False, True])
def test_the_server_hears_at_once_that_its_client_left(
    upstreams: Upstreams, client: socket.socket, started: bool
) -> None:
    client.sendall(REQUEST)
    with upstreams[0].accept() as server:
        receive(server, b"body")
        if started:
            server.sendall(STREAM)
            receive(client, b"chunked")
        client.close()
        assert server.recv(1) == b""


@pytest.mark.parametrize(
    "sent", [b"", STREAM + b"6\r\none\n\n\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]
)
def test_the_client_hears_at_once_that_its_server_died(
    upstreams: Upstreams, client: socket.socket, sent: bytes
) -> None:
    client.sendall(REQUEST)
    with upstreams[0].accept() as server:
        receive(server, b"body")
        server.sendall(sent)
    received = b""
    while data := client.recv(65536):
        received += data
    assert received.endswith(sent[-4:])


def test_a_server_that_is_not_there_is_as_one_that_died_and_the_next_is_asked_next(
    upstreams: Upstreams, port: int
) -> None:
    upstreams[0].close()
    client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    client.request("POST", "/mcp", b"{}")
    with pytest.raises(RemoteDisconnected):
        client.getresponse()
    client.request("POST", "/mcp", b"{}")
    upstreams[1].answer(b"served")
    assert client.getresponse().read() == b"served"
    client.close()


@pytest.mark.fault("A16")
@pytest.mark.parametrize("accept", [BOTH, JSON], ids=["stream", "json"])
@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
def test_leaving_through_the_front_stops_the_call_at_whichever_server_has_it(
    stack: Stack, tmp_path: Path, leave: Callable[[Connection], None], accept: str
) -> None:
    with front(*(server.port for server in stack.servers)) as port:
        for turn, _ in enumerate(stack.servers):
            steps = tmp_path / str(turn)
            call = Connection(port)
            call.post(wire.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP), accept=accept)
            stack.running(call)
            eventually(steps.exists, "it takes a step")
            leave(call)
            row = stack.ended(call)
            assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
            assert_stopped(row, steps)
