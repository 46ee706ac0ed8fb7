"""One legacy request being served: the exchange that modern handlers take, speaking an older revision.

Refuses to know any method, and what carries it: each transport makes its own of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from mcp_app.protocol import legacy_results
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.legacy_requests import Handshake
from mcp_app.protocol.revisions import Revision
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.legacy.session import LegacySession


@dataclass(kw_only=True)
class LegacyExchange(Exchange, ABC):
    """A legacy request on its way to its response."""

    mirrors_params: ClassVar[bool] = False
    makes_tasks: ClassVar[bool] = False

    revision: Revision

    @property
    @abstractmethod
    def session(self) -> LegacySession | None:
        """None: the client opened none, and nothing of it is kept."""

    @abstractmethod
    async def begin_session(self, handshake: Handshake, revision: Revision) -> Rejection | None:
        """Begin one, or say why not."""

    def asking(self, asker: UUID) -> AbstractContextManager[None]:
        """Meanwhile answers to what the call or read `asker` asks are for this client to give."""
        return nullcontext()

    async def take_back(self, withdrawals: Iterable[Mapping[str, Any]]) -> None:
        """Tell the client, which has cancelled this request and is still there, that nobody waits for its answers."""

    async def end_without_response(self) -> None:
        """End it: its client has cancelled it, and is told nothing more."""

    async def reject(self, rejection: Rejection) -> None:
        await super().reject(legacy_results.rejection_as_of(self.route.method, rejection))

    async def complete(self, result: Mapping[str, Any]) -> None:
        await super().complete(legacy_results.as_of(self.revision, self.route.method, result))
