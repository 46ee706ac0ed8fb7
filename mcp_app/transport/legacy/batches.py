"""Serve several requests in one POST (2025-03-26), side by side, on one stream or as one array.

A batch's stream cannot be resumed, because its events would belong to several streams. Source:
2025-03-26 basic/transports "Sending Messages to the Server", basic/index "Batching".
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp_app.protocol.errors import INTERNAL_ERROR, HTTPFields, Rejection, refuse
from mcp_app.protocol.jsonrpc import RequestMessage, error_response
from mcp_app.protocol.sse import EventId
from mcp_app.transport.http.responses import EndpointResponse
from mcp_app.transport.legacy.http_peer import HTTPPeer
from mcp_app.transport.serving.responder import PeerGoneError

logger = logging.getLogger(__name__)

INTERNAL = "The server failed; its operator can find the details in the log."

Serve = Callable[[RequestMessage, EndpointResponse], Awaitable[None]]


class BatchMember(EndpointResponse):
    """The response to one request of a batch.

    It writes to the batch's stream, or collects messages for its array.
    """

    def __init__(self, shared: EndpointResponse) -> None:
        self._shared = shared
        self._kept: list[Mapping[str, Any]] = []
        self.fields: HTTPFields = ()
        self.started = shared.started
        self.finished = False

    @property
    def kept(self) -> Sequence[Mapping[str, Any]]:
        """Its messages for the array."""
        return self._kept

    @property
    def silent_seconds(self) -> float:
        return self._shared.silent_seconds

    async def json(
        self,
        message: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        status: int = 200,
        fields: HTTPFields = (),
        *,
        bodiless: bool = False,
    ) -> None:
        assert isinstance(message, Mapping), "one of a batch has one answer"
        await self.event(message, last=True)

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection), last=True)

    async def start_events(self) -> None:
        """Do nothing: the batch's stream is already open, or there is none."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        self.finished = last
        if self._shared.started:
            await self._shared.event(message)
        else:
            self._kept.append(message)

    async def keep_alive(self) -> None:
        await self._shared.keep_alive()

    async def end(self) -> None:
        """End without a message. A batch has no answer to a request that was cancelled."""
        self.finished = True


async def serve(
    peer: HTTPPeer, requests: Sequence[RequestMessage | Rejection], serve_one: Serve, *, as_stream: bool
) -> None:
    """Serve the batch. Every request is answered, in the order in which they end."""
    if as_stream:
        await peer.response.start_events()
    members = [BatchMember(peer.response) for _ in requests]
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
        await peer.response.json(answers)
    else:
        await peer.response.accepted()


async def _serve_member(
    peer: HTTPPeer, request: RequestMessage | Rejection, member: BatchMember, serve_one: Serve
) -> None:
    if isinstance(request, Rejection):
        await member.reject(request)
        return
    try:
        await serve_one(request, member)
    except PeerGoneError:
        peer.interruption.disconnected = True  # the reason for the other requests, which end too
        raise
    except Exception:
        logger.exception("a request of a batch failed inside the server")
        if not member.finished:
            await member.reject(refuse(INTERNAL_ERROR, INTERNAL, request.request_id))
