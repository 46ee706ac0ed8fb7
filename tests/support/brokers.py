"""Brokers that fail: one refuses connections, one never answers, and a real one is behind a proxy that can be cut."""

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest
from celery import Celery, current_app
from kombu import pools

URLS = {"redis": "redis://127.0.0.1:{port}/9", "amqp": "amqp://guest:guest@127.0.0.1:{port}//"}


BACKLOG = 4
"""More connections than the kernel queues for a listener with a backlog of 0."""


@contextmanager
def refusing_port():
    """Yield a port without a listener, which stays bound so that no other process can listen on it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def silent_port():
    """Yield a port that takes connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@contextmanager
def deaf_port():
    """Yield a port whose packets are dropped, as by a firewall, so that not even a connection is established."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as exits:
        port = listener.getsockname()[1]
        # When the backlog is full, the kernel drops further connection attempts.
        for _ in range(BACKLOG):
            end = exits.enter_context(socket.socket())
            end.setblocking(False)
            end.connect_ex(("127.0.0.1", port))
        yield port


@contextmanager
def celery_on(url: str):
    """Make an app on `url` Celery's current app. Skips the test if `url` is of Redis and its client is missing."""
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
    """A TCP proxy to `port`, where the broker may be down for a while.

    `cut()` ends all connections, `lose()` discards all further data on them, and `hang_up()` also stops listening.
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
        """Discard all further data on the current connections, as a network that lost them. Neither end is notified."""
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
    """Take all messages out of a queue of the current app's broker, and return their request ids."""
    found = []
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        while message := channel.basic_get(queue, no_ack=True):
            [args, *_] = message.decode() if hasattr(message, "decode") else message.payload
            found += args
    return found
