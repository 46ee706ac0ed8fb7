"""What the server sends for one request over stdio, or for a JSON-RPC batch.

A response needs no beginning and no keep-alive, because the channel is open anyway. The requests of
a batch (2025-03-26) run concurrently and are answered on one line. Every message before the last
one of a request is sent at once. Source: 2025-03-26 basic/index "Batching", JSON-RPC 2.0 "Batch".
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
    """A `responder.Responder` on the channel that all requests of the client share."""

    shared = True
    started = True

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._written_at = time.monotonic()
        self._is_dropping = False

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._written_at

    def drop_later_messages(self) -> None:
        """Send nothing from now on: no message may follow a cancellation.

        Source: basic/transports, stdio, "Cancellation".
        """
        self._is_dropping = True

    async def json(self, message: Mapping[str, Any]) -> None:
        await self.event(message)

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection))

    async def start_events(self) -> None:
        """Do nothing: there is nothing to begin."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        if not self._is_dropping:
            await self._writer.write(message)
            self._written_at = time.monotonic()

    async def end(self) -> None:
        """Do nothing: the channel stays open."""

    async def keep_alive(self) -> None:
        """Send nothing, but restart `silent_seconds`. A client that has gone is noticed when its input ends."""
        self._written_at = time.monotonic()


class StdioBatchMember(StdioResponse):
    """The messages of one request of a batch. The last one is held for the batch's line.

    `json` is not called, because `started` is true.
    """

    def __init__(self, writer: LineWriter, answers: list[Mapping[str, Any]]) -> None:
        super().__init__(writer)
        self._answers = answers

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection), last=True)

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        if not last:
            await super().event(message)
        elif not self._is_dropping:
            self._answers.append(message)


class StdioBatch:
    """The answers to the requests of one line."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._answers: list[Mapping[str, Any]] = []

    def member(self) -> StdioBatchMember:
        """Return the response for one of the requests."""
        return StdioBatchMember(self._writer, self._answers)

    async def answer(self, tasks: Collection["asyncio.Task[None]"]) -> None:
        """Wait until all requests have ended, then send the answers of those that were not cancelled.

        Raises `PeerGoneError`.
        """
        if tasks:
            await asyncio.wait(tasks)
        if self._answers:
            await self._writer.write_array(self._answers)
