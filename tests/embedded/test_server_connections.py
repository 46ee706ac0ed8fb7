"""Client behaviour that Daphne's connections do not handle. Each of these tests fails on plain Daphne."""

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from tests.embedded.test_server import Served, get, read_all, read_until

BEYOND_TWISTEDS_PATIENCE = 20_000
"""The number of bytes after a running request at which Twisted would stop reading."""
MORE_THAN_THE_SYSTEM_HOLDS = 40
"""More megabytes than the buffers between server and client can take."""


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    try:
        yield served.ready()
    finally:
        served.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def half_close(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


def waiting(served: Served) -> socket.socket:
    """A connection whose request never ends."""
    connection = get(served, b"/wait")
    read_until(connection, b"open")
    assert served.line() == "waiting"
    return connection


@pytest.mark.fault("A5")
@pytest.mark.parametrize("leave", [socket.socket.close, reset, half_close])
def test_A5_a_client_that_sent_more_behind_its_request_and_left_is_noticed(
    leave: Callable[[socket.socket], None], served: Served
) -> None:
    with waiting(served) as connection:
        connection.sendall(bytes(BEYOND_TWISTEDS_PATIENCE))
        leave(connection)
        assert served.line() == "disconnected"


def test_a_client_that_sends_without_end_behind_its_request_is_left(served: Served) -> None:
    with waiting(served) as connection:
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(bytes(MORE_THAN_THE_SYSTEM_HOLDS * 1_000_000))
        assert served.line() == "disconnected"


def test_a_request_that_came_early_is_answered_in_its_turn(served: Served) -> None:
    body = bytes(BEYOND_TWISTEDS_PATIENCE)
    first = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    second = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
    with served.connect() as connection:
        connection.sendall(first + second)
        answers = read_all(connection)
    assert answers.index(b"\r\n3\r\n") < answers.index(b"\r\n%d\r\n" % len(body))


@pytest.mark.fault("E1")
def test_E1_an_application_is_held_up_by_a_client_that_does_not_read(served: Served) -> None:
    before = served.memory()
    with get(served, b"/pages") as connection:
        word, number = served.line().split()
        assert (word, int(number) < MORE_THAN_THE_SYSTEM_HOLDS) == ("held", True)
        assert served.memory() - before < 16 * 1024
        tail = b""
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            tail = tail[-16:] + connection.recv(1 << 20)
        assert served.line() == "written"


@pytest.mark.fault("E1")
def test_E1_an_application_is_held_up_for_no_client_that_has_left(served: Served) -> None:
    with get(served, b"/pages") as connection:
        assert served.line().startswith("held")
        reset(connection)
        assert served.line() == "written"
