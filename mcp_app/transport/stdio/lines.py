"""Read and write messages on file descriptors, one message a line.

`LineReader` reads only when it is asked, so a client that sends too much blocks in its own pipe. A
line that is too long is discarded. `LineWriter` writes through a thread, so a client that does not
read blocks nothing. A writer with too much unsent data waits, and a client that does not read for
`STALL_TIMEOUT` counts as gone.
"""

import asyncio
import os
import select
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from mcp_app.conf import settings
from mcp_app.protocol.errors import Rejection, body_too_large
from mcp_app.protocol.jsonrpc import encode
from mcp_app.transport.serving.responder import PeerGoneError

CHUNK_BYTES = 64 * 1024
FLUSH_SECONDS = 2.0
"""How long a client may take to read the last messages when the process ends."""


class LineReader:
    """Reads lines from a pipe, socket, terminal or file. Belongs to one event loop."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._skipping = False
        self._closed = False
        self._woken = asyncio.Event()

    def close(self) -> None:
        """Make the current and every later call of `next` return `None`."""
        self._closed = True
        self._woken.set()

    async def next(self) -> bytes | Rejection | None:
        """Return the next line that is not blank, or `None` at the end.

        A line that is too long is returned as a rejection.
        """
        while not self._closed:
            if (line := self._take_line()) is not None:
                return line
            if not (chunk := await self._read()):
                break
            self._buffer += chunk
        return None

    def _take_line(self) -> bytes | Rejection | None:
        """Take a line from the buffer. Return `None` if the buffer holds no complete line."""
        while (end := self._buffer.find(b"\n")) >= 0:
            line, skipped = bytes(self._buffer[:end]).strip(), self._skipping
            del self._buffer[: end + 1]
            self._skipping = False
            if skipped or len(line) > self._max_bytes:
                return body_too_large(self._max_bytes)
            if line:
                return line
        if len(self._buffer) > self._max_bytes:
            self._buffer.clear()
            self._skipping = True
        return None

    async def _read(self) -> bytes:
        """Return the bytes that have arrived, or nothing at the end."""
        while not self._closed:
            await self._wait_readable()
            try:
                return b"" if self._closed else os.read(self._descriptor, CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:  # the other end of a socket or a terminal went away
                break
        return b""

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._descriptor, self._woken.set)
        except PermissionError:  # a file, which is always readable
            return
        try:
            await self._woken.wait()
        finally:
            loop.remove_reader(self._descriptor)
            if not self._closed:
                self._woken.clear()


class LineWriter:
    """Writes lines through a thread. Belongs to one event loop.

    `on_gone` is called on the loop, once, when nothing more can be written.
    """

    def __init__(self, descriptor: int, on_gone: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._unsent = 0
        self._changed = asyncio.Event()
        self._gone: str | None = None
        self._thread = threading.Thread(target=self._run, name="mcp-stdout", daemon=True)
        self._thread.start()

    async def write(self, message: Mapping[str, Any]) -> None:
        """Queue one message, as soon as there is space. Raises `PeerGoneError`."""
        await self._put(encode(message) + b"\n")

    async def write_array(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Queue several messages as one line. Raises `PeerGoneError`."""
        await self._put(b"[" + b",".join(map(encode, messages)) + b"]\n")

    async def close(self) -> None:
        """Wait up to `FLUSH_SECONDS` until the client has read everything."""
        await self._wait(lambda: self._unsent == 0, FLUSH_SECONDS)
        self._lines.put(None)

    async def _put(self, line: bytes) -> None:
        if self._unsent > settings.MAX_UNSENT_BYTES:
            await self._wait(lambda: self._unsent <= settings.MAX_UNSENT_BYTES, settings.STALL_TIMEOUT)
        if self._gone is not None:
            raise PeerGoneError(self._gone)
        self._unsent += len(line)
        self._lines.put(line)

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._gone is None and not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self._mark_gone("the client does not read the response")

    def _wrote(self, size: int) -> None:
        self._unsent -= size
        self._changed.set()

    def _mark_gone(self, why: str) -> None:
        if self._gone is None:
            self._gone = why
            self._changed.set()
            self._on_gone()

    def _run(self) -> None:
        """Write the queued lines. This is the thread."""
        while (line := self._lines.get()) is not None:
            try:
                _write(self._descriptor, line)
            except OSError:
                self._call_in_loop(self._mark_gone, "the client has disconnected")
                return
            self._call_in_loop(self._wrote, len(line))

    def _call_in_loop(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *args)


def _write(descriptor: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # the client shares the stream and made it non-blocking
            writable = select.poll()
            writable.register(descriptor, select.POLLOUT)
            writable.poll()
