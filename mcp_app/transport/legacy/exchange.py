"""One legacy request being served: the exchange that modern handlers take, speaking an older revision.

A `Peer` is the HTTP request it came in, maybe among others. Refuses to know any method.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.audit import SYSTEM, Actor
from mcp_app.models import Session
from mcp_app.protocol import legacy_results, legacy_sse
from mcp_app.protocol.errors import Rejection, RequestId
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.protocol.jsonrpc import response as rpc_response
from mcp_app.protocol.legacy_sse import EventId
from mcp_app.protocol.revisions import Revision
from mcp_app.states import Cause
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.http import Response
from mcp_app.transport.server import Server


@dataclass(slots=True)
class Peer:
    """Who sent an HTTP request of the legacy era, and where its answer goes."""

    server: Server
    headers: Headers
    principal: Principal
    remote_address: str
    response: Response
    disconnected: bool = False
    request_id: RequestId | None = None
    """Of the one request that it holds, if it is one."""

    @property
    def actor(self) -> Actor:
        return Actor(self.principal.label, self.remote_address)


@dataclass(kw_only=True)
class LegacyExchange(Exchange):
    """A legacy request on its way to its response."""

    mirrors_params: ClassVar[bool] = False
    makes_tasks: ClassVar[bool] = False

    peer: Peer
    http: Response
    """The `response`, for what only HTTP has."""
    revision: Revision
    session: Session | None
    """None: the client opened none, and nothing of it is kept."""
    resumable: bool
    """Whether its events have ids: it has a session, and a stream of its own."""

    @classmethod
    def of(
        cls, peer: Peer, route: Route, revision: Revision, session: Session | None, response: Response | None = None
    ) -> "LegacyExchange":
        """`response` is given for one of several requests that share the peer's."""
        http = peer.response if response is None else response
        return cls(
            server=peer.server,
            route=route,
            headers=peer.headers,
            principal=peer.principal,
            remote_address=peer.remote_address,
            response=http,
            http=http,
            peer=peer,
            revision=revision,
            session=session,
            resumable=session is not None and response is None,
        )

    @property
    def session_id(self) -> UUID | None:
        return self.session.pk if self.session is not None else None

    async def reject(self, rejection: Rejection, event_id: EventId | None = None) -> None:
        """As the modern exchange does; `event_id` as for `complete`."""
        rejection = legacy_results.rejection_as_of(self.route.method, rejection)
        if event_id is not None and self.resumable and self.response.started:
            self.span.fail(str(rejection.code), rejection.message, code=rejection.code)
            await self.http.frame(legacy_sse.event(error_response(rejection), event_id), last=True)
        else:
            await super().reject(rejection)

    async def complete(self, result: Mapping[str, Any], event_id: EventId | None = None) -> None:
        """As the modern exchange does; `event_id` is that of the response where it ends a resumable stream."""
        result = legacy_results.as_of(self.revision, self.route.method, result)
        if event_id is not None and self.resumable and self.response.started:
            message = rpc_response(self.route.request_id, result)
            await self.http.frame(legacy_sse.event(message, event_id), last=True)
        else:
            await super().complete(result)

    def interruption(self) -> tuple[Cause, Actor]:
        if self.peer.disconnected:
            return Cause.DISCONNECT, self.peer.actor
        return Cause.SHUTDOWN, SYSTEM
