"""Several requests in one POST (2025-03-26): served side by side, answered on one stream or as one array.

Its streams cannot be resumed: their events would belong to several streams. Source: 2025-03-26 basic/transports
"Sending Messages to the Server", basic/index "Batching".
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp_app.protocol.errors import INTERNAL_ERROR, HTTPFields, Rejection, refuse
from mcp_app.protocol.jsonrpc import Request, error_response
from mcp_app.transport.http import Response
from mcp_app.transport.legacy.http_exchange import Peer
from mcp_app.transport.responder import PeerGoneError

logger = logging.getLogger(__name__)

INTERNAL = "The server failed; its operator can find the details in the log."

Serve = Callable[[Request, Response], Awaitable[None]]


class Member(Response):
    """The response to one of a batch: what it writes goes to the batch's stream, or is kept for its array."""

    def __init__(self, shared: Response) -> None:
        self._shared = shared
        self._kept: list[Mapping[str, Any]] = []
        self.fields: HTTPFields = ()
        self.started = shared.started
        self.finished = False

    @property
    def kept(self) -> Sequence[Mapping[str, Any]]:
        """What it has for the array."""
        return self._kept

    @property
    def silent_seconds(self) -> float:
        return self._shared.silent_seconds

    async def json(self, message: Mapping[str, Any], status: int = 200, fields: HTTPFields = ()) -> None:
        await self.event(message, last=True)

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection), last=True)

    async def accepted(self) -> None:
        """Nothing: of a cancelled request a batch says nothing."""
        self.finished = True

    async def start_events(self) -> None:
        """The batch's stream is open, or there is none."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False) -> None:
        self.finished = last
        if self._shared.started:
            await self._shared.event(message)
        else:
            self._kept.append(message)

    async def keep_alive(self) -> None:
        await self._shared.keep_alive()

    async def end(self) -> None:
        self.finished = True


async def serve(peer: Peer, requests: Sequence[Request | Rejection], serve_one: Serve, *, as_stream: bool) -> None:
    """Serve the batch: every request is answered, in whatever order they end."""
    if as_stream:
        await peer.response.start_events()
    members = [Member(peer.response) for _ in requests]
    try:
        async with asyncio.TaskGroup() as group:
            for request, member in zip(requests, members, strict=True):
                group.create_task(_serve_member(peer, request, member, serve_one))
    except* PeerGoneError as gone:
        raise PeerGoneError(str(gone.exceptions[0])) from gone
    if as_stream:
        await peer.response.end()
        return
    answers = [answer for member in members for answer in member.kept]
    if answers:
        await peer.response.json_array(answers)
    else:
        await peer.response.accepted()


async def _serve_member(peer: Peer, request: Request | Rejection, member: Member, serve_one: Serve) -> None:
    if isinstance(request, Rejection):
        await member.reject(request)
        return
    try:
        await serve_one(request, member)
    except PeerGoneError:
        peer.disconnected = True  # so that the others, which end with it, know why
        raise
    except Exception:
        logger.exception("a request of a batch failed inside the server")
        if not member.finished:
            await member.reject(refuse(INTERNAL_ERROR, INTERNAL, request.request_id))
