"""Messages out: whole lines, one after another, through a thread, so that a client that does not read blocks nothing.

Refuses to buffer without limit: whoever writes waits for room, and a client that makes room for nobody is gone.
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
from mcp_app.protocol.jsonrpc import encode
from mcp_app.transport.responder import PeerGoneError

FLUSH_SECONDS = 2.0
"""What a client is given to read the last messages when the process ends."""


class Writer:
    """Belongs to one event loop. `on_gone` is called on it, once, when nothing more can be written."""

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
        """Hand one message over, once there is room. Raises PeerGoneError."""
        await self._put(encode(message) + b"\n")

    async def write_array(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Hand several over, as one line. Raises PeerGoneError."""
        await self._put(b"[" + b",".join(map(encode, messages)) + b"]\n")

    async def close(self) -> None:
        """Wait, for a moment, until the client has taken what was written."""
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
            self._lose("the client does not read what it is sent")

    def _wrote(self, size: int) -> None:
        self._unsent -= size
        self._changed.set()

    def _lose(self, why: str) -> None:
        if self._gone is None:
            self._gone = why
            self._changed.set()
            self._on_gone()

    def _run(self) -> None:
        """The thread."""
        while (line := self._lines.get()) is not None:
            try:
                _write(self._descriptor, line)
            except OSError:
                self._tell(self._lose, "the client is gone")
                return
            self._tell(self._wrote, len(line))

    def _tell(self, what: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(what, *args)


def _write(descriptor: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # the client shares the stream with us, and made it so
            writable = select.poll()
            writable.register(descriptor, select.POLLOUT)
            writable.poll()
