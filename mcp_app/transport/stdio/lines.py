"""Messages in: one a line, each bounded. Reads only when asked, so that a client that floods is held up in its pipe.

Refuses to keep a line that is too long, and to wait for one after `close`.
"""

import asyncio
import os

from mcp_app.protocol.errors import Rejection, body_too_large

CHUNK_BYTES = 64 * 1024


class Lines:
    """The lines of a file descriptor: a pipe, a socket, a terminal or a file. Belongs to one event loop."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._skips = False
        self._closed = False
        self._woken = asyncio.Event()

    def close(self) -> None:
        """Have `next` return None, now and always."""
        self._closed = True
        self._woken.set()

    async def next(self) -> bytes | Rejection | None:
        """The next line that is not blank; a Rejection for one that is too long; None at the end."""
        while not self._closed:
            if (line := self._cut()) is not None:
                return line
            if not (chunk := await self._read()):
                break
            self._buffer += chunk
        return None

    def _cut(self) -> bytes | Rejection | None:
        """Take a line from the buffer; None when it holds no whole one."""
        while (end := self._buffer.find(b"\n")) >= 0:
            line, skipped = bytes(self._buffer[:end]).strip(), self._skips
            del self._buffer[: end + 1]
            self._skips = False
            if skipped or len(line) > self._max_bytes:
                return body_too_large(self._max_bytes)
            if line:
                return line
        if len(self._buffer) > self._max_bytes:
            self._buffer.clear()
            self._skips = True
        return None

    async def _read(self) -> bytes:
        """What has come; nothing at the end."""
        while not self._closed:
            await self._readable()
            try:
                return b"" if self._closed else os.read(self._descriptor, CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:  # the other end of a socket or a terminal went away
                break
        return b""

    async def _readable(self) -> None:
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
