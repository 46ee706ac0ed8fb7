"""A proxy without stickiness: each HTTP request goes to the next server in turn, whatever connection it arrives on.

It forwards bytes in both directions as they arrive, and changes no header but `Connection`. If one side disconnects
early, the other side is disconnected at once. A request or a response without a stated length is the last one on its
connection. If a server dies, its response stays incomplete.
"""

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import cycle
from threading import Thread
from typing import Final

CHUNK: Final = 64 * 1024
_END: Final = b"\r\n\r\n"
_CONNECTION: Final = re.compile(rb"\r\nConnection:[^\r\n]*", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\nContent-Length:[ \t]*(\d+)", re.IGNORECASE)


class Incoming(asyncio.StreamReader):
    """The data of a client. `left` is set as soon as the client disconnects, even if its data has not been read."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.left.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.left.set()


async def _exchange(head: bytes, incoming: Incoming, client: asyncio.StreamWriter, port: int) -> bool:
    """Forward one request and its response over a new connection to the server.

    Returns whether the client's connection can carry another request.
    """
    response, server = await asyncio.open_connection("127.0.0.1", port)
    owed = _length(head, math.inf if b"\r\ntransfer-encoding:" in head.lower() else 0)
    server.write(_with_connection(head, b"close"))
    sending = asyncio.create_task(_copy(incoming, server, owed))
    answering = asyncio.create_task(_answer(response, client, last=owed == math.inf))
    leaving = asyncio.create_task(incoming.left.wait())
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        return answering.done() and answering.result() and sending.done() and sending.result()
    finally:
        for task in (sending, answering, leaving):
            task.cancel()
        await asyncio.gather(sending, answering, leaving, return_exceptions=True)
        server.transport.abort()


async def _answer(response: asyncio.StreamReader, client: asyncio.StreamWriter, *, last: bool) -> bool:
    """Forward a response. Returns whether its length is stated and it is complete."""
    while (head := await response.readuntil(_END)).split(b" ", 2)[1].startswith(b"1"):
        client.write(head)
    length = _length(head, math.inf)
    client.write(_with_connection(head, b"close" if last or length == math.inf else b"keep-alive"))
    return await _copy(response, client, length)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, owed: float) -> bool:
    """Forward `owed` bytes, and return whether all of them arrived."""
    while owed and (data := await source.read(int(min(CHUNK, owed)))):
        target.write(data)
        await target.drain()
        owed -= len(data)
    return not owed


def _with_connection(head: bytes, value: bytes) -> bytes:
    return _CONNECTION.sub(b"", head).removesuffix(b"\r\n") + b"Connection: " + value + _END


def _length(head: bytes, unstated: float) -> float:
    found = _LENGTH.search(head)
    return int(found[1]) if found else unstated


class _Front:
    def __init__(self, ports: Sequence[int]) -> None:
        self._turns = cycle(ports)
        self._clients: set[asyncio.StreamWriter] = set()

    async def listen(self) -> int:
        """Start to listen, and return the port."""
        create = asyncio.get_running_loop().create_server
        self._server = await create(lambda: asyncio.StreamReaderProtocol(Incoming(), self._serve), "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, incoming: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        assert isinstance(incoming, Incoming)
        self._clients.add(client)
        # Both errors mean that the client or the server has disconnected.
        with closing(client), suppress(asyncio.IncompleteReadError, ConnectionError):
            while await _exchange(await incoming.readuntil(_END), incoming, client, next(self._turns)):
                pass
        self._clients.remove(client)

    async def end(self) -> None:
        # Close the listening socket last, because asyncio would lose a connection that is accepted and not yet served.
        while asyncio.all_tasks() - {asyncio.current_task()}:
            for client in self._clients:
                client.transport.abort()
            await asyncio.sleep(0)
        self._server.close()


@contextmanager
def front(*ports: int) -> Iterator[int]:
    """Yield the port of a proxy to the servers on these local ports. A thread runs it until the block is left."""
    with asyncio.Runner() as runner:
        loop, served = runner.get_loop(), _Front(ports)
        thread = Thread(target=loop.run_forever)
        thread.start()
        try:
            yield asyncio.run_coroutine_threadsafe(served.listen(), loop).result()
        finally:
            asyncio.run_coroutine_threadsafe(served.end(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
