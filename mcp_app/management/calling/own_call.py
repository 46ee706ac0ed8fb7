"""A `tools/call` from this process itself: a client of the modern era without a transport.

Its message goes through the same code as those of clients over stdio, so it has the same rights and limits. The call
never becomes a task, because its caller waits.
"""

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle.requests.observation import Observed
from mcp_app.models import Request
from mcp_app.protocol import metadata
from mcp_app.protocol.errors import Rejection, body_too_large
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import classify_line
from mcp_app.protocol.jsonrpc import Limits, encode, error_response
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import MODERN
from mcp_app.protocol.sse import EventId
from mcp_app.states import Status
from mcp_app.transport import methods
from mcp_app.transport.calls import stream
from mcp_app.transport.calls.dialogue import StatelessDialogue
from mcp_app.transport.server import Server
from mcp_app.transport.serving import failures
from mcp_app.transport.serving.exchange import Exchange

logger = logging.getLogger(__name__)

CLIENT_NAME: Final = "manage.py mcp call"
CAPABILITIES: Final[Mapping[str, Any]] = MappingProxyType({"elicitation": {"form": {}, "url": {}}})
"""The capabilities of this client. Without a terminal, questions are declined."""
_TOKEN: Final = "call"  # noqa: S105 - of the protocol, for progress


class CallListener(Protocol):
    """Is notified about the call."""

    def begun(self, request_id: UUID) -> None:
        """The call is stored, but may not be published yet."""

    def moved(self, status: Status) -> None:
        """The status has changed."""

    def notified(self, message: Mapping[str, Any]) -> None:
        """A notification of progress or of a log message."""


class _Response:
    """A `responder.Responder` that passes notifications to the listener and keeps the last message."""

    shared = True
    started = True

    def __init__(self, listener: CallListener) -> None:
        self._listener = listener
        self._heard_at = time.monotonic()
        self.message: Mapping[str, Any] | None = None

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._heard_at

    async def json(self, message: Mapping[str, Any]) -> None:
        await self.event(message, last=True)

    async def reject(self, rejection: Rejection) -> None:
        await self.event(error_response(rejection), last=True)

    async def start_events(self) -> None:
        """Do nothing."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False, event_id: EventId | None = None) -> None:
        if "method" in message:
            self._listener.notified(message)
        else:
            self.message = message
        await self.keep_alive()

    async def end(self) -> None:
        """Do nothing."""

    async def keep_alive(self) -> None:
        self._heard_at = time.monotonic()


class OwnDialogue(StatelessDialogue):
    """Also notifies the listener about the row."""

    def __init__(self, exchange: Exchange, listener: CallListener) -> None:
        super().__init__(exchange)
        self._listener = listener

    def following(self, request: Request) -> AbstractContextManager[None]:
        self._listener.begun(request.pk)
        return super().following(request)

    async def deliver(self, observed: Observed) -> bool:
        self._listener.moved(observed.status)
        return await super().deliver(observed)

    async def detach(self, request: Request, error: BaseException) -> bool:
        self._listener.begun(request.pk)  # a call that is stopped while it is stored has not been followed
        return await super().detach(request, error)


class OwnCall:
    """Makes a call, and calls again with answers. `exchange` is the request that is being served."""

    def __init__(
        self,
        server: Server,
        principal: Principal,
        listener: CallListener,
        *,
        log_level: str | None,
        timeout: float | None,
    ) -> None:
        """`log_level` is the lowest level to receive, or `None` for none; `timeout` is in seconds."""
        self._server = server
        self._principal = principal
        self._listener = listener
        self._log_level = log_level
        self._ends_at = None if timeout is None else time.monotonic() + timeout
        self.exchange: Exchange | None = None

    async def ask(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the response to a `tools/call` with these params: a JSON-RPC message, which may ask for input."""
        response = _Response(self._listener)
        route = self._route(params)
        if isinstance(route, Rejection):
            return error_response(route)
        self.exchange = Exchange(
            server=self._server,
            route=route,
            headers=Headers(()),
            principal=self._principal,
            remote_address="",
            response=response,
            mirrors_params=False,
            makes_tasks=False,
        )
        serve = partial(stream.serve, dialogue=OwnDialogue(self.exchange, self._listener))
        try:
            await methods.dispatch(self.exchange, {"tools/call": serve})
        except Exception as error:
            return error_response(failures.explain(error, route.request_id))
        assert response.message is not None, "every request has a response"
        return response.message

    def _route(self, params: Mapping[str, Any]) -> Route | Rejection:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": self._meta()}}
        line = encode(message)
        if len(line) > settings.MAX_BODY_BYTES:
            return body_too_large(settings.MAX_BODY_BYTES)
        route = classify_line(line, Limits(max_depth=settings.MAX_DEPTH))
        assert isinstance(route, Route | Rejection), "it declares its version"
        return route

    def _meta(self) -> dict[str, Any]:
        meta: dict[str, Any] = {
            metadata.PROTOCOL_VERSION: MODERN,
            metadata.CLIENT_CAPABILITIES: dict(CAPABILITIES),
            metadata.CLIENT_INFO: {"name": CLIENT_NAME, "version": settings.SERVER_VERSION},
            metadata.PROGRESS_TOKEN: _TOKEN,
        }
        if self._log_level is not None:
            meta[metadata.LOG_LEVEL] = self._log_level
        if self._ends_at is not None:
            meta[metadata.TIME_LIMIT] = max(1, round((self._ends_at - time.monotonic()) * 1000))
        return meta
