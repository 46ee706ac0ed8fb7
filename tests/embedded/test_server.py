"""The embedded server over real sockets."""

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.embedded.conftest import ROOT

LIMIT = 100_000


class Served:
    """The server process. A thread puts its lines into a queue."""

    def __init__(self, port: int = 0, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.embedded.served", str(port)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def ready(self) -> "Served":
        word, port = self.line().split()
        assert word == "ready"
        self.port = int(port)
        return self

    def line(self, seconds: float = 15.0) -> str:
        return self._lines.get(timeout=seconds)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=15)

    def memory(self) -> int:
        """Return the peak resident set size in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    def end(self) -> int:
        """Wait for the process to end by itself."""
        return self.process.wait(15)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start_one(port: int = 0, **environment: str) -> Served:
        started.append(Served(port, **environment))
        return started[-1]

    yield start_one
    for served in started:
        served.close()


@pytest.fixture
def served(start: Callable[..., Served]) -> Served:
    """A server for one test."""
    return start().ready()


@pytest.fixture(scope="module")
def one_server() -> Iterator[Served]:
    """A server that tests share if they read no output and leave it unchanged."""
    served = Served()
    try:
        yield served.ready()
    finally:
        served.close()


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


def read_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        chunk = connection.recv(65536)
        assert chunk, received
        received += chunk
    return received


def assert_refused(answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nConnection: close" in head
    error = json.loads(body)
    assert error["error"]["code"] == 413
    assert "id" not in error


def post(served: Served, headers: bytes) -> socket.socket:
    connection = served.connect()
    connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n")
    return connection


def test_a_body_that_says_it_is_too_large_is_refused_before_it_arrives(one_server: Served) -> None:
    with post(one_server, b"Content-Length: %d" % (LIMIT + 1)) as connection:
        assert_refused(read_all(connection))


def test_an_application_sees_what_a_slow_reader_has_not_taken(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        word, unsent = served.line().split()
        assert word == "unsent"
        assert 0 < int(unsent) < 64_000_000


def test_a_client_that_waits_for_permission_is_refused_and_not_told_to_continue(one_server: Served) -> None:
    with post(one_server, b"Content-Length: %d\r\nExpect: 100-continue" % (LIMIT + 1)) as connection:
        assert_refused(read_all(connection))


@pytest.mark.fault("F1")
def test_a_large_body_is_dropped_as_it_arrives_and_its_sender_reads_the_refusal(served: Served) -> None:
    before = served.memory()
    client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=15)
    client.request("POST", "/", body=bytes(50_000_000))
    assert client.getresponse().status == 413
    client.close()
    assert served.memory() - before < 10_000


@pytest.mark.fault("F1")
def test_a_chunked_body_is_refused_where_it_passes_the_limit(one_server: Served) -> None:
    chunk = b"%x\r\n%b\r\n" % (LIMIT // 2, bytes(LIMIT // 2))
    with post(one_server, b"Transfer-Encoding: chunked") as connection:
        connection.sendall(chunk * 3)
        assert_refused(read_all(connection))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_exactly_the_limit_is_served(chunked: bool, one_server: Served) -> None:
    client = http.client.HTTPConnection("127.0.0.1", one_server.port, timeout=15)
    body = bytes(LIMIT)
    client.request("POST", "/", body=iter([body]) if chunked else body, encode_chunked=chunked)
    assert client.getresponse().read() == str(LIMIT).encode()
    client.close()


@pytest.mark.fault("I11")
@pytest.mark.parametrize("content_type", [b"multipart/form-data", b"multipart/form-data; boundary=x"])
def test_I11_a_form_is_handed_over_unparsed(content_type: bytes, one_server: Served) -> None:
    # Twisted answers 400 to a form that it cannot parse
    with post(one_server, b"Content-Type: %b\r\nContent-Length: 7" % content_type) as connection:
        connection.sendall(b"no form")
        assert read_until(connection, b"\r\n0\r\n\r\n").endswith(b"\r\n\r\n1\r\n7\r\n0\r\n\r\n")


@pytest.mark.fault("I11")
def test_I11_a_body_in_many_small_chunks_is_refused_and_the_rest_of_it_is_not_read(one_server: Served) -> None:
    with post(one_server, b"Transfer-Encoding: chunked") as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"1\r\nx\r\n" * 5_000)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert "small chunks" in json.loads(body)["error"]["message"]


CHUNKED = b"3\r\nabc\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"1.1\r\nHost: x\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\nabc", id="folded"),
        pytest.param(b"1.1\r\nHost: x\r\nX: a\r\n\tb\r\nContent-Length: 3\r\n\r\nabc", id="folded by a tab"),
        pytest.param(b"1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKED, id="folded encoding"),
        pytest.param(b"1.1\r\n Host: x\r\nContent-Length: 3\r\n\r\nabc", id="first line folded"),
        *(
            pytest.param(
                b"1.1\r\nHost: x\r\n%b\r\n\r\n" % b"\r\n".join(b"Transfer-Encoding: " + each for each in encodings)
                + CHUNKED,
                id=b" + ".join(encodings).decode(),
            )
            for encodings in (
                [b"chunked", b"identity"],
                [b"identity", b"chunked"],
                [b"chunked", b"chunked"],
                [b"identity, chunked"],
                [b"gzip, chunked"],
                [b"xchunked"],
                [b"\x0bchunked"],
                [b"", b"chunked"],
            )
        ),
        *(
            pytest.param(b"1.1\r\nHost: x\r\n%b\r\n\r\nabc" % b"\r\n".join(fields), id=b" + ".join(fields).decode())
            for fields in (
                [b"Transfer-Encoding: identity", b"Content-Length: 3"],
                [b"Transfer-Encoding: chunked", b"Content-Length: 3"],
                [b"Content-Length: 3", b"Transfer-Encoding: chunked"],
                [b"Content-Length: 3", b"Content-Length: 3"],
                [b"Content-Length: 3", b"Content-Length: 4"],
                [b"Content-Length: 3, 3"],
                [b"Content-Length: +3"],
                [b"Content-Length: 0_3"],
                [b"Content-Length: 0x3"],
                [b"Content-Length : 3"],
                [b"Content-Length:"],
                [b"X: a\nContent-Length: 3"],
                [b"X: a\rContent-Length: 3"],
                [b"Content-Length: 3", b"Host: y"],
            )
        ),
        pytest.param(b"1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED, id="chunked in HTTP/1.0"),
        pytest.param(b"1.1\r\nContent-Length: 3\r\n\r\nabc", id="no host"),
        pytest.param(b"1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", id="chunk of +3"),
        pytest.param(
            b"1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", id="chunk of 3 and a space"
        ),
    ],
)
def test_a_request_whose_end_or_host_two_servers_could_see_differently_is_refused(
    request_bytes: bytes, one_server: Served
) -> None:
    with one_server.connect() as connection:
        connection.sendall(b"POST / HTTP/" + request_bytes + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_an_encoding_is_named_in_any_case_and_a_client_of_http_1_0_needs_no_host(one_server: Served) -> None:
    with post(one_server, b"Transfer-Encoding: CHUNKED") as connection:
        connection.sendall(CHUNKED)
        assert b"\r\n\r\n1\r\n3\r\n" in read_until(connection, b"\r\n0\r\n\r\n")
    with one_server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc")
        assert read_all(connection).endswith(b"\r\n\r\n3")


def test_a_body_in_many_chunks_is_served(one_server: Served) -> None:
    with post(one_server, b"Transfer-Encoding: chunked") as connection:
        connection.sendall(b"20\r\n%b\r\n" % bytes(32) * 3_000 + b"0\r\n\r\n")
        assert b"\r\n96000\r\n" in read_until(connection, b"\r\n0\r\n\r\n")


def test_a_connection_is_kept_for_the_next_request(one_server: Served) -> None:
    client = http.client.HTTPConnection("127.0.0.1", one_server.port, timeout=15)
    sockets = set()
    for _ in range(3):
        client.request("POST", "/", body=b"abc")
        assert client.getresponse().read() == b"3"
        assert client.sock is not None
        sockets.add(client.sock.getsockname())
    client.close()
    assert len(sockets) == 1


@pytest.mark.fault("G2")
def test_no_header_sets_the_root_path_and_the_client_is_the_peer(one_server: Served) -> None:
    client = http.client.HTTPConnection("127.0.0.1", one_server.port, timeout=15)
    client.request("GET", "/scope", headers={"Daphne-Root-Path": "/evil", "X-Forwarded-For": "9.9.9.9"})
    scope = json.loads(client.getresponse().read())
    assert scope["root_path"] == ""
    assert "daphne-root-path" not in scope["names"]
    assert "x-forwarded-for" in scope["names"]
    assert client.sock is not None
    assert scope["client"] == list(client.sock.getsockname())
    client.close()


def get(served: Served, path: bytes) -> socket.socket:
    connection = served.connect()
    connection.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
    return connection


def test_an_exception_in_mid_response_ends_that_connection_and_leaves_the_checker_alive(one_server: Served) -> None:
    for _ in range(2):
        with get(one_server, b"/raise") as connection:
            read_until(connection, b"begun")
            with pytest.raises(ConnectionResetError):
                read_all(connection)


def test_an_application_hears_of_its_clients_end(served: Served) -> None:
    connection = get(served, b"/wait")
    assert served.line() == "waiting"
    connection.close()
    assert served.line() == "disconnected"


@pytest.mark.fault("H2")
def test_no_socket_is_inherited_by_a_child_process(one_server: Served) -> None:
    client = http.client.HTTPConnection("127.0.0.1", one_server.port, timeout=15)
    client.request("GET", "/inherited")
    assert b"socket" not in client.getresponse().read()
    client.close()


@pytest.mark.fault("C13", "H2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_frees_the_port_drains_ends_applications_and_stops(
    number: signal.Signals, start: Callable[..., Served]
) -> None:
    served = start(DRAIN_SECONDS="0.3").ready()
    half = post(served, b"Content-Length: 100")
    stream = get(served, b"/wait")
    assert served.line() == "waiting"
    served.process.send_signal(number)
    assert served.line() == "draining"
    with pytest.raises(ConnectionRefusedError):
        served.connect()
    successor = start(served.port).ready()
    assert [served.line() for _ in range(3)] == ["drained", "cancelled", "ended"]
    assert served.end() == 0
    assert successor.process.poll() is None
    half.close()
    stream.close()


def test_a_connection_that_is_open_is_still_served_while_draining_and_then_closed(
    start: Callable[..., Served],
) -> None:
    served = start(DRAIN_SECONDS="1").ready()
    client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=15)
    client.request("POST", "/", body=b"abc")
    client.getresponse().read()
    served.process.send_signal(signal.SIGTERM)
    assert served.line() == "draining"
    client.request("POST", "/", body=b"abcd")
    answer = client.getresponse()
    assert answer.read() == b"4"
    assert answer.headers["Connection"] == "close"
    assert served.end() == 0
    client.close()


def test_a_second_signal_stops_without_waiting_for_the_drain(start: Callable[..., Served]) -> None:
    served = start(DRAIN_SECONDS="60").ready()
    served.process.send_signal(signal.SIGTERM)
    assert served.line() == "draining"
    served.process.send_signal(signal.SIGTERM)
    assert served.line() == "ended"
    assert served.end() == 0


def test_a_port_in_use_is_said_and_nothing_is_started(served: Served, start: Callable[..., Served]) -> None:
    second = start(served.port)
    assert second.end() == 1
    assert second.process.stderr is not None
    error = second.process.stderr.read()
    assert f"127.0.0.1 port {served.port}" in error
    assert "Traceback" not in error
