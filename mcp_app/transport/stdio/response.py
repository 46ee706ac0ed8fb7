"""The messages of one request over stdio. They need no beginning and no keep-alive: the channel is open anyway.

Refuses to send anything once it is silenced.
"""

import time
from collections.abc import Mapping
from typing import Any

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.transport.stdio.writer import Writer


class Response:
    """A `responder.Responder`."""

    shared = True
    started = True

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._written_at = time.monotonic()
        self._silenced = False

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._written_at

    def silence(self) -> None:
        """Drop what is still said: nothing may follow a cancellation (stdio "Cancellation")."""
        self._silenced = True

    async def json(self, message: Mapping[str, Any]) -> None:
        await self.event(message)

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection))

    async def start_events(self) -> None:
        """Nothing: there is nothing to begin."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False) -> None:
        if not self._silenced:
            await self._writer.write(message)
            self._written_at = time.monotonic()

    async def keep_alive(self) -> None:
        """Nothing goes over the wire: a stream without a reader is seen at once."""
        self._written_at = time.monotonic()
