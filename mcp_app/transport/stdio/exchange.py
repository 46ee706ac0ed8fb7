"""The requests of one client over stdio, of either era: they have no headers, and share their client's session.

Refuses to know any method.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.legacy_requests import Handshake
from mcp_app.protocol.revisions import Revision
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.server import Server
from mcp_app.transport.stdio.session import Session
from mcp_app.transport.stdio.writer import Writer


@dataclass(slots=True)
class Peer:
    """The client at the other end of a connection."""

    server: Server
    writer: Writer
    session: Session | None = None
    """Of a legacy client, from its `initialize` on."""

    async def listen(self, principal: Principal) -> None:
        """Miss no change from now on that its session is to be told of. Raises django.db.Error."""
        if self.session is not None:
            await self.session.listen(principal)

    async def leave(self) -> None:
        """It is gone: tell it nothing more."""
        if self.session is not None:
            self.session.end()
            await self.session.ended()


@dataclass(slots=True)
class StdioExchange(Exchange):
    """A modern request."""

    mirrors_params: ClassVar[bool] = False


@dataclass(kw_only=True)
class LegacyStdioExchange(LegacyExchange):
    """A legacy request."""

    peer: Peer

    @property
    def session(self) -> Session | None:
        return self.peer.session

    async def begin_session(self, handshake: Handshake, revision: Revision) -> Rejection | None:
        self.peer.session = Session(self.server, self.peer.writer, self.principal, revision, handshake)
        return None

    @contextmanager
    def asking(self, asker: UUID) -> Iterator[None]:
        assert self.session is not None, "what comes before initialize is refused"
        self.session.asking.add(asker)
        try:
            yield
        finally:
            self.session.asking.discard(asker)

    async def take_back(self, withdrawals: Iterable[Mapping[str, Any]]) -> None:
        for message in withdrawals:
            await self.peer.writer.write(message)
