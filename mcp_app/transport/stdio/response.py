"""The messages of one request over stdio, or of a batch.

A response needs no beginning and no keep-alive, because the channel is open anyway. The requests of
a batch (2025-03-26) are served side by side and answered on one line. Notifications that come
before those answers are sent separately. Source: 2025-03-26 basic/index "Batching", JSON-RPC 2.0
"Batch".
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.protocol.sse import EventId
from mcp_app.transport.stdio.lines import LineWriter


class StdioResponse:
    """A `responder.Responder` on the shared channel."""

    shared = True
    started = True

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._written_at = time.monotonic()
        self._silenced = False

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._written_at

    def silence(self) -> None:
        """Drop later messages: none may follow a cancellation (stdio "Cancellation")."""
        self._silenced = True

    async def json(self, message: Mapping[str, Any]) -> None:
        await self.event(message)

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection))

    async def start_events(self) -> None:
        """Do nothing: there is nothing to begin."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        if not self._silenced:
            await self._writer.write(message)
            self._written_at = time.monotonic()

    async def end(self) -> None:
        """Do nothing: the channel stays open."""

    async def keep_alive(self) -> None:
        """Send nothing. A client that has gone is noticed without it."""
        self._written_at = time.monotonic()


class StdioBatchMember(StdioResponse):
    """The messages of one request of a batch. The last one is held for the batch's line."""

    def __init__(self, writer: LineWriter, answers: list[Mapping[str, Any]]) -> None:
        super().__init__(writer)
        self._answers = answers

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection), last=True)

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        if not last:
            await super().event(message)
        elif not self._silenced:
            self._answers.append(message)


class StdioBatch:
    """One line with several requests."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._answers: list[Mapping[str, Any]] = []

    def member(self) -> StdioBatchMember:
        """Return the response for one of the requests."""
        return StdioBatchMember(self._writer, self._answers)

    async def answer(self, serving: Collection["asyncio.Task[None]"]) -> None:
        """Send the answers once all requests have ended, except for cancelled ones.

        Raises `PeerGoneError`.
        """
        if serving:
            await asyncio.wait(serving)
        if self._answers:
            await self._writer.write_array(self._answers)
