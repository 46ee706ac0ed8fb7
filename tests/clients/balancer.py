"""A balancer without sticky routing: each connection goes to the next server in turn, and ends as either side does."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Final

HOST: Final = "127.0.0.1"
CHUNK: Final = 65_536


class _Balancer(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__((HOST, 0), _Connection)
        self.turns = cycle(ports)


class _Connection(BaseRequestHandler):
    server: _Balancer

    def handle(self) -> None:
        with socket.create_connection((HOST, next(self.server.turns))) as onward:
            back = threading.Thread(target=_pump, args=(onward, self.request), daemon=True)
            back.start()
            _pump(self.request, onward)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def balanced(ports: Sequence[int]) -> Iterator[int]:
    """The port in front of these."""
    with _Balancer(ports) as balancer:
        serving = threading.Thread(target=balancer.serve_forever, daemon=True)
        serving.start()
        yield balancer.server_address[1]
        balancer.shutdown()
        serving.join()
