"""Several requests on one line (2025-03-26): served side by side, answered on one line as well.

What is said before their answers goes out by itself. Source: 2025-03-26 basic/index "Batching", JSON-RPC 2.0 "Batch".
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.transport.stdio.response import Response
from mcp_app.transport.stdio.writer import Writer


class Member(Response):
    """The messages of one of the requests; the last is kept."""

    def __init__(self, writer: Writer, kept: list[Mapping[str, Any]]) -> None:
        super().__init__(writer)
        self._kept = kept

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection), last=True)

    async def event(self, message: Mapping[str, Any], *, last: bool = False) -> None:
        if not last:
            await super().event(message)
        elif not self._silenced:
            self._kept.append(message)


class Batch:
    """One line of several requests."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._kept: list[Mapping[str, Any]] = []

    def member(self) -> Member:
        """Where one of them is answered."""
        return Member(self._writer, self._kept)

    async def answer(self, serving: Collection["asyncio.Task[None]"]) -> None:
        """Send the answers once all are there: none for what was cancelled. Raises PeerGoneError."""
        if serving:
            await asyncio.wait(serving)
        if self._kept:
            await self._writer.write_array(self._kept)
