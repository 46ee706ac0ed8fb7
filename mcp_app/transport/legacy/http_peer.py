"""A legacy client over HTTP. Its session is a row, and the events of its streams may have ids.

An `HTTPPeer` is made for each HTTP request.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import changes
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Session
from mcp_app.protocol.errors import Rejection, RequestId
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.legacy.inbound import SESSION, LegacyPost
from mcp_app.protocol.legacy.requests import Handshake
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import Revision
from mcp_app.transport.http.responses import EndpointResponse
from mcp_app.transport.legacy import notices
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.process.admission import too_many
from mcp_app.transport.server import Server
from mcp_app.transport.serving.callers import StreamCaller
from mcp_app.transport.serving.exchange import Interruption


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


@dataclass(slots=True)
class HTTPPeer:
    """The client that sent an HTTP request of the legacy era, and its response."""

    server: Server
    headers: Headers
    principal: Principal
    remote_address: str
    response: EndpointResponse
    caller: StreamCaller
    interruption: Interruption
    """Shared by all requests of a batch."""
    post: LegacyPost | None = None
    """The messages of a POST. A GET or DELETE has none."""
    request_id: RequestId | None = None
    """The id of the request in the body, if the body holds exactly one."""
    row: Session | None = None
    """The session that the request names, once it is found."""

    @property
    def actor(self) -> Actor:
        return Actor(self.principal.label, self.remote_address)

    @property
    def session(self) -> StoredSession | None:
        return StoredSession(self.server, self.row.pk) if self.row is not None else None

    def exchange(self, route: Route, revision: Revision, member: EndpointResponse | None = None) -> LegacyExchange:
        """Make the exchange of one request. `member` is its response if it is part of a batch."""
        return LegacyExchange(
            server=self.server,
            route=route,
            headers=self.headers,
            principal=self.principal,
            remote_address=self.remote_address,
            response=member or self.response,
            caller=self.caller,
            interruption=self.interruption,
            session_id=self.row.pk if self.row is not None else None,
            revision=revision,
            peer=self,
            resumable=self.response if self.row is not None and member is None else None,
        )

    async def begin_session(self, principal: Principal, handshake: Handshake, revision: Revision) -> Rejection | None:
        """Store a session and name it in `Mcp-Session-Id`."""
        begin = partial(
            sessions.begin,
            principal,
            protocol_version=revision.name,
            client_info=handshake.client_info,
            client_capabilities=handshake.client_capabilities,
            subjects=notices.list_notices(principal.endpoint),
        )
        try:
            session = await self.server.rows.run(begin)
        except sessions.TooManySessionsError:
            return too_many("You have too many busy sessions; end one, or try again later.", self.request_id)
        self.response.fields = (*self.response.fields, (SESSION.lower().encode(), session.pk.hex.encode()))
        return None

    def asking(self, asker: UUID) -> AbstractContextManager[None]:
        """Do nothing, because the rows of questions name their session."""
        return nullcontext()

    async def withdraw_questions(self, withdrawals: Iterable[Mapping[str, Any]]) -> None:
        """Do nothing, because a connected client gets them on the stream of its call."""
