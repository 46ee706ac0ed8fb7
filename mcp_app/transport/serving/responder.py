"""The interface with which handlers send messages to their client.

`http.responses.EndpointResponse` writes to one HTTP response, `stdio.response.StdioResponse` to the
standard output that all requests of a connection share.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.sse import EventId


class PeerGoneError(Exception):
    """The client has left, or does not read."""


class Responder(Protocol):
    """Sends messages to the client. Every method raises `PeerGoneError`."""

    @property
    def started(self) -> bool:
        """Whether several messages can be sent: an event stream has begun, or none is needed."""

    @property
    def shared(self) -> bool:
        """Whether other requests use the same channel, so that it cannot be closed for this one."""

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last write, or since the request."""

    async def json(self, message: Mapping[str, Any]) -> None:
        """Send a JSON-RPC message as the whole response."""

    async def reject(self, rejection: Rejection) -> None:
        """Send an error as the whole response."""

    async def start_events(self) -> None:
        """Begin a response of several messages."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        """Send one of several messages, with `event_id` if the transport has event ids."""

    async def end(self) -> None:
        """End the response without a message, unless it has ended."""

    async def keep_alive(self) -> None:
        """Send a comment that is no message, if the transport has comments."""


Receive = Callable[[], Awaitable[dict[str, Any]]]


class DetachedResponse(Protocol):
    """A response that stays open after its handler has returned, such as a listen stream."""

    @property
    def over(self) -> bool:
        """Whether it has ended by itself."""

    def when_over(self, tell: Callable[[], object]) -> None:
        """Call the function once the response ends by itself."""

    def leave(self) -> None:
        """Release its resources, because its client has left or the process ends. Idempotent."""


async def stay(remaining: DetachedResponse, receive: Receive) -> None:
    """Wait until the client leaves or the stream has ended."""
    presence = asyncio.timeout(None)

    def end() -> None:
        with suppress(RuntimeError):  # the client has just left
            presence.reschedule(0)

    with suppress(TimeoutError):
        async with presence:
            remaining.when_over(end)
            while not remaining.over and (await receive())["type"] != "http.disconnect":
                pass
