"""One legacy request being served, and the interfaces of its client and session.

A `LegacyExchange` is the exchange that modern handlers take. It converts results to the older
revision. Its peer is the client as its transport knows it, because sessions differ by transport:
rows over HTTP, memory over stdio. Source: 2025-11-25 basic/lifecycle, server/utilities/logging,
server/resources "Subscriptions".
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.legacy import results
from mcp_app.protocol.legacy.requests import Handshake
from mcp_app.protocol.revisions import Revision
from mcp_app.protocol.sse import EventId
from mcp_app.transport.http.responses import EndpointResponse
from mcp_app.transport.serving.exchange import Exchange


class LegacySession(Protocol):
    """One client's session, from its `initialize` on."""

    async def set_log_level(self, level: str) -> None:
        """Set the log level of later calls, and start or stop the heartbeat."""

    async def subscribe(self, uri: str) -> bool:
        """Send a notification when the resource at `uri` changes.

        Return `False` if there are too many.
        """

    async def unsubscribe(self, uri: str) -> None:
        """Stop sending notifications for `uri`. Does nothing if there are none."""


class LegacyPeer(Protocol):
    """A legacy client, as its transport knows it."""

    @property
    def session(self) -> LegacySession | None:
        """Its session, if it has begun one."""

    async def begin_session(self, principal: Principal, handshake: Handshake, revision: Revision) -> Rejection | None:
        """Begin a session. Return a rejection if that is not possible."""

    def asking(self, asker: UUID) -> AbstractContextManager[None]:
        """Accept this client's answers to `asker`, a call or read, until the context ends."""

    async def withdraw_questions(self, withdrawals: Iterable[Mapping[str, Any]]) -> None:
        """Send messages that withdraw questions, after the client has cancelled the request."""


@dataclass(kw_only=True)
class LegacyExchange(Exchange):
    """A legacy request on its way to its response."""

    revision: Revision
    peer: LegacyPeer
    resumable: EndpointResponse | None = None
    """Its HTTP response, if the client can resume it after losing the connection. That needs a
    session and excludes batches.
    """
    mirrors_params: bool = False
    makes_tasks: bool = False

    async def reject(self, rejection: Rejection, event_id: EventId | None = None) -> None:
        await super().reject(results.legacy_rejection(self.route.method, rejection), event_id)

    async def complete(self, result: Mapping[str, Any], event_id: EventId | None = None) -> None:
        await super().complete(results.legacy_result(self.revision, self.route.method, result), event_id)
