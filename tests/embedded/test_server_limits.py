"""The embedded server's limits: the time for a request to arrive, and the number of connections and bytes."""

import contextlib
import json
import resource
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.embedded.conftest import eventually
from tests.embedded.test_server import Served, post, read_all, read_until, start

__all__ = ["start"]

Start = Callable[..., Served]
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
END = b"\r\n3\r\n0\r\n\r\n"
"""The response to a body of three bytes."""


def trickle(connection: socket.socket, pause: float = 0.05, seconds: float = 10.0) -> bytes:
    """Send a byte now and then until the server closes the connection. Return its response."""
    received = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        readable, _, _ = select.select([connection], [], [], pause)
        if readable:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                return received
            received += part
            if not part:
                return received
        with contextlib.suppress(OSError):
            connection.sendall(b"x")
    raise AssertionError(f"it is still open after {seconds} s: {received!r}")


def assert_served(served: Served) -> None:
    with post(served, b"Content-Length: 3") as connection:
        connection.sendall(b"abc")
        assert b"200 OK" in read_until(connection, END)


@pytest.mark.fault("F10")
@pytest.mark.parametrize("begun", [b"", b"POST / HTTP/1.1\r\nHost: x\r\nX: "])
def test_F10_a_head_that_trickles_is_given_up_at_a_time_counted_from_its_start(start: Start, begun: bytes) -> None:
    served = start(HEAD_TIMEOUT="0.5").ready()
    began_at = time.monotonic()
    with served.connect() as connection:
        connection.sendall(begun)
        answer = trickle(connection)
    assert time.monotonic() - began_at > 0.4
    assert answer.startswith(b"HTTP/1.1 408 ") == bool(begun)
    assert_served(served)


@pytest.mark.fault("F10")
def test_F10_a_body_that_trickles_is_given_up_at_a_time_counted_from_its_start(start: Start) -> None:
    served = start(BODY_TIMEOUT="0.5").ready()
    began_at = time.monotonic()
    with served.connect() as connection:
        connection.sendall(HEAD)
        answer = trickle(connection)
    assert time.monotonic() - began_at > 0.4
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"]["code"] == 408
    assert_served(served)


@pytest.mark.fault("F10")
def test_F10_connections_that_say_nothing_are_closed(start: Start) -> None:
    served = start(HEAD_TIMEOUT="0.5").ready()
    silent = [served.connect() for _ in range(50)]
    assert [read_all(connection) for connection in silent] == [b""] * 50
    for connection in silent:
        connection.close()
    assert_served(served)


@pytest.mark.fault("F10")
def test_F10_the_head_of_a_second_request_has_its_own_time(start: Start) -> None:
    served = start(HEAD_TIMEOUT="0.5").ready()
    with served.connect() as connection:
        for _ in range(2):  # the pause between two requests counts for neither
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
            read_until(connection, END)
            time.sleep(0.7)
        connection.sendall(b"POST / HTTP/1.1\r\n")
        assert trickle(connection).startswith(b"HTTP/1.1 408 ")


def test_a_running_request_is_not_given_up(start: Start) -> None:
    served = start(HEAD_TIMEOUT="0.2", BODY_TIMEOUT="0.2").ready()
    with served.connect() as connection:
        connection.sendall(b"POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        read_until(connection, b"open")
        connection.settimeout(1.0)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_a_connection_too_many_is_refused_with_the_time_to_come_back(start: Start) -> None:
    served = start(MAX_CONNECTIONS="3").ready()
    held = [served.connect() for _ in range(3)]
    with served.connect() as refused:
        head, _, body = read_all(refused).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1" in head
    error = json.loads(body)["error"]
    assert "busy" in error.pop("message")
    assert error == {"code": 503, "data": {"retryAfter": 1}}
    for connection in held:
        connection.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            return assert_served(served)
        except (AssertionError, ConnectionError):
            assert time.monotonic() < deadline


def test_bodies_that_are_too_much_together_are_refused_and_room_is_made_again(start: Start) -> None:
    served = start(MAX_HELD_BYTES="100000").ready()
    with post(served, b"Content-Length: 90000") as first:
        first.sendall(bytes(60_000))
        second = post(served, b"Content-Length: 90000")
        try:
            second.sendall(bytes(80_000))
            answer = read_until(second, b"}}")
        finally:
            second.close()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in answer
        first.sendall(bytes(30_000))
        assert b"200 OK" in read_until(first, b"90000")
    with post(served, b"Content-Length: 90000") as third:
        third.sendall(bytes(90_000))
        assert b"200 OK" in read_until(third, b"90000")


@pytest.mark.fault("F10")
def test_F10_who_sends_little_does_not_wait_for_uploads_that_stall(start: Start) -> None:
    served = start(MAX_HELD_BYTES="50000").ready()
    with post(served, b"Content-Length: 90000") as stalled:
        stalled.sendall(bytes(60_000))
        with post(served, b"Content-Length: 10000") as small:
            small.sendall(bytes(10_000))
            assert b"200 OK" in read_until(small, b"10000")


@pytest.mark.fault("F10")
@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(600)) + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 16_384 + b"\r\n\r\n",
        b"POST /" + b"x" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["headers", "header", "line"],
)
def test_F10_a_head_too_large_is_refused_and_its_connection_closed(start: Start, head: bytes) -> None:
    served = start().ready()
    before = served.memory()
    with served.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head)
        with contextlib.suppress(ConnectionResetError):
            answer = read_all(connection)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert served.memory() - before < 5_000
    assert_served(served)


@pytest.mark.fault("I4")
def test_I4_connections_leave_descriptors_free_and_each_one_too_many_is_refused(start: Start) -> None:
    served = start().ready()
    limit = len(list(Path(f"/proc/{served.process.pid}/fd").iterdir())) + 30
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    held, refused = [], 0
    try:
        for _ in range(2 * limit):
            held.append(post(served, b"Content-Length: 3"))
            if select.select([held[-1]], [], [], 0.05)[0]:
                with held.pop() as connection:
                    assert read_all(connection).startswith(b"HTTP/1.1 503 ")
                refused += 1
        assert refused
        assert len(list(Path(f"/proc/{served.process.pid}/fd").iterdir())) <= limit - limit // 4
    finally:
        for connection in held:
            connection.close()
    eventually(lambda: _is_served(served))


def _is_served(served: Served) -> bool:
    with contextlib.suppress(AssertionError, ConnectionError):
        assert_served(served)
        return True
    return False
