"""A legacy request that came over HTTP: its session is a row, its events may carry ids.

A `Peer` is the HTTP request it came in, maybe among others. Refuses to know any method.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import changes
from mcp_app.lifecycle import sessions
from mcp_app.lifecycle.audit import SYSTEM, Actor
from mcp_app.models import Session
from mcp_app.protocol import legacy_results, legacy_sse
from mcp_app.protocol.errors import Rejection, RequestId
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.protocol.jsonrpc import response as rpc_response
from mcp_app.protocol.legacy_inbound import SESSION
from mcp_app.protocol.legacy_requests import Handshake
from mcp_app.protocol.legacy_sse import EventId
from mcp_app.protocol.revisions import Revision
from mcp_app.states import Cause
from mcp_app.transport.admission import too_many
from mcp_app.transport.callers import Caller
from mcp_app.transport.http import Response
from mcp_app.transport.legacy import notices
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.server import Server


@dataclass(slots=True)
class Peer:
    """Who sent an HTTP request of the legacy era, and where its answer goes."""

    server: Server
    headers: Headers
    principal: Principal
    remote_address: str
    response: Response
    caller: Caller
    disconnected: bool = False
    request_id: RequestId | None = None
    """Of the one request that it holds, if it is one."""

    @property
    def actor(self) -> Actor:
        return Actor(self.principal.label, self.remote_address)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A `LegacySession` in a row."""

    server: Server
    session_id: UUID

    async def set_log_level(self, level: str) -> None:
        await self.server.rows.run(sessions.set_log_level, self.session_id, level)

    async def subscribe(self, uri: str) -> bool:
        subject = changes.resource_subject(uri)
        return await self.server.rows.run(sessions.subscribe, self.session_id, uri, subject)

    async def unsubscribe(self, uri: str) -> None:
        await self.server.rows.run(sessions.unsubscribe, self.session_id, uri, changes.resource_subject(uri))


@dataclass(kw_only=True)
class HTTPExchange(LegacyExchange):
    """A legacy request on its way to its HTTP response."""

    peer: Peer
    http: Response
    """The `response`, for what only HTTP has."""
    row: Session | None
    """Its session's."""
    resumable: bool
    """Whether its events have ids: it has a session, and a stream of its own."""

    @classmethod
    def of(
        cls, peer: Peer, route: Route, revision: Revision, row: Session | None, response: Response | None = None
    ) -> "HTTPExchange":
        """`response` is given for one of several requests that share the peer's."""
        http = peer.response if response is None else response
        return cls(
            server=peer.server,
            route=route,
            headers=peer.headers,
            principal=peer.principal,
            remote_address=peer.remote_address,
            response=http,
            caller=peer.caller,
            http=http,
            peer=peer,
            revision=revision,
            row=row,
            resumable=row is not None and response is None,
        )

    @property
    def session_id(self) -> UUID | None:
        return self.row.pk if self.row is not None else None

    @property
    def session(self) -> StoredSession | None:
        return StoredSession(self.server, self.row.pk) if self.row is not None else None

    async def begin_session(self, handshake: Handshake, revision: Revision) -> Rejection | None:
        """Store one, named in `Mcp-Session-Id`."""
        begin = partial(
            sessions.begin,
            self.principal,
            protocol_version=revision.name,
            client_info=handshake.client_info,
            client_capabilities=handshake.client_capabilities,
            subjects=notices.of_lists(self.principal.endpoint),
        )
        try:
            session = await self.server.rows.run(begin)
        except sessions.TooManySessionsError:
            return too_many("Too many sessions of yours are busy; end one.", self.request_id)
        self.http.fields = ((SESSION.lower().encode(), session.pk.hex.encode()),)
        return None

    async def end_without_response(self) -> None:
        """An event stream without a response; 202 for a client that takes none ("Not send a response")."""
        if not self.http.started and not self.route.accept.event_stream:
            await self.http.accepted()
            return
        if not self.http.started:
            await self.http.start_events()
        await self.http.end()

    async def reject(self, rejection: Rejection, event_id: EventId | None = None) -> None:
        """As other exchanges do; `event_id` as for `complete`."""
        if event_id is None or not self.resumable or not self.response.started:
            await super().reject(rejection)
            return
        error = error_response(legacy_results.rejection_as_of(self.route.method, rejection))
        self.span.fail(str(rejection.code), rejection.message, code=rejection.code)
        await self.http.frame(legacy_sse.event(error, event_id), last=True)

    async def complete(self, result: Mapping[str, Any], event_id: EventId | None = None) -> None:
        """As other exchanges do; `event_id` is that of the response where it ends a resumable stream."""
        if event_id is None or not self.resumable or not self.response.started:
            await super().complete(result)
            return
        result = legacy_results.as_of(self.revision, self.route.method, result)
        message = rpc_response(self.route.request_id, result)
        await self.http.frame(legacy_sse.event(message, event_id), last=True)

    def interruption(self) -> tuple[Cause, Actor]:
        if self.peer.disconnected:
            return Cause.DISCONNECT, self.peer.actor
        return Cause.SHUTDOWN, SYSTEM
