"""Where the messages of one request go, whatever carries them: what handlers may rely on.

`http.Response` writes to an HTTP response of the request's own, `stdio.response.Response` to the one channel of a
connection. Refuses to know either.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from mcp_app.protocol.errors import Rejection


class PeerGoneError(Exception):
    """The peer left, or does not read: nothing more can be sent to it."""


class Responder(Protocol):
    """The way back to the peer. Every method but the properties raises PeerGoneError."""

    @property
    def started(self) -> bool:
        """Whether messages can follow each other: an event stream was begun, or needs no beginning."""

    @property
    def shared(self) -> bool:
        """Whether the messages of other requests go the same way, so that none can be closed by itself."""

    @property
    def silent_seconds(self) -> float:
        """Since the last write, or since the request."""

    async def json(self, message: Mapping[str, Any]) -> None:
        """A JSON-RPC message as the whole response."""

    async def reject(self, rejection: Rejection) -> None:
        """An error as the whole response."""

    async def start_events(self) -> None:
        """Begin a response of several messages."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False) -> None:
        """One message of several."""

    async def keep_alive(self) -> None:
        """Something that is no message, where the transport has that."""
