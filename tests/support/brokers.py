"""Brokers that misbehave: one that refuses, one that never answers, and a real one behind a line that can be cut."""

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest
from celery import Celery, current_app
from kombu import pools

URLS = {"redis": "redis://127.0.0.1:{port}/9", "amqp": "amqp://guest:guest@127.0.0.1:{port}//"}


BACKLOG = 4
"""More than a listener that wants none is given by the kernel."""


@contextmanager
def refusing_port():
    """A port where nobody listens, held so that nobody else comes to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def silent_port():
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@contextmanager
def deaf_port():
    """A port whose packets are dropped, as a firewall does: not even a connection is answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as exits:
        port = listener.getsockname()[1]
        # A full backlog: the kernel drops what else would connect.
        for _ in range(BACKLOG):
            end = exits.enter_context(socket.socket())
            end.setblocking(False)
            end.connect_ex(("127.0.0.1", port))
        yield port


@contextmanager
def celery_on(url: str):
    """Celery's current app is one on `url`. Skips where the client for that broker is not installed."""
    if url.startswith("redis:"):
        pytest.importorskip("redis", reason="the basic tests need no client of a real broker")
    before = current_app._get_current_object()
    app = Celery("lifecycle-tests", broker=url, set_as_current=False)
    app.set_current()
    try:
        yield app
    finally:
        before.set_current()
        app.close()
        pools.reset()


class Line:
    """A TCP proxy to `port`, which may have nobody listening for a while.

    `cut()` ends what is connected, `lose()` drops all that its ends still say, `hang_up()` refuses what would connect.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._sockets: set[socket.socket] = set()
        self._lost: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port = self._listener.getsockname()[1]
        self._threads[0].start()

    def cut(self) -> None:
        for end in list(self._sockets):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lose(self) -> None:
        """As a network that forgot these connections: nobody is told, and nothing arrives any more."""
        self._lost |= self._sockets

    def hang_up(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                self._sockets |= {near, far}
                for source, target in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._carry, args=(source, target), daemon=True))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in self._lost:
                    target.sendall(data)
        if source not in self._lost:
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
        self._sockets.discard(source)
        source.close()


def waiting(queue: str) -> list[str]:
    """The request ids of the messages in one queue of the current app's broker, which are taken out."""
    found = []
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        while message := channel.basic_get(queue, no_ack=True):
            [args, *_] = message.decode() if hasattr(message, "decode") else message.payload
            found += args
    return found
