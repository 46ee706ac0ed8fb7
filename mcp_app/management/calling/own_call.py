"""One `tools/call` of this process's own: a client of the modern era without a wire, served as every other is.

Its message is read, checked, stored and answered by the code that does so for clients over stdio, so its rights and
limits are theirs. Refuses to become a task: whoever calls here waits.
"""

import logging
import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle.observation import Observed
from mcp_app.models import Request
from mcp_app.protocol import metadata
from mcp_app.protocol.errors import Rejection, body_too_large
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.jsonrpc import Limits, encode, error_response
from mcp_app.protocol.lines import classify_line
from mcp_app.protocol.revisions import MODERN
from mcp_app.states import Status
from mcp_app.transport import call_stream, failures
from mcp_app.transport.call_notifications import CallNotifications
from mcp_app.transport.call_stream import CallStream
from mcp_app.transport.dispatch import dispatch
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.server import Server

logger = logging.getLogger(__name__)

CLIENT_NAME: Final = "manage.py mcp call"
CAPABILITIES: Final[Mapping[str, Any]] = MappingProxyType({"elicitation": {"form": {}, "url": {}}})
"""What can be asked of whoever calls: declined where nobody is there."""
_TOKEN: Final = "call"  # noqa: S105 - of the protocol, for progress


class Listener(Protocol):
    """Who calls, and hears how it goes."""

    def begun(self, request_id: UUID) -> None:
        """It is stored; nobody has been told to run it yet."""

    def moved(self, status: Status) -> None:
        """Where it is by now."""

    def notified(self, message: Mapping[str, Any]) -> None:
        """A notification, of progress or a log line."""


class CallExchange(Exchange):
    """A call without headers, and without a connection that could be handed a task."""

    mirrors_params: ClassVar[bool] = False
    makes_tasks: ClassVar[bool] = False


class _Response:
    """A `responder.Responder`: notifications are the listener's, the last message is kept."""

    shared = True
    started = True

    def __init__(self, listener: Listener) -> None:
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
        """Nothing: there is nothing to begin."""

    async def event(self, message: Mapping[str, Any], *, last: bool = False) -> None:
        if "method" in message:
            self._listener.notified(message)
        else:
            self.message = message
        await self.keep_alive()

    async def keep_alive(self) -> None:
        self._heard_at = time.monotonic()


class _Stream(CallStream):
    """Tells the listener of its row."""

    def __init__(self, exchange: Exchange, listener: Listener) -> None:
        super().__init__(exchange)
        self._listener = listener

    async def _wait_for(self, request: Request) -> None:
        self._listener.begun(request.pk)
        await super()._wait_for(request)

    async def _tell(self, observed: Observed, told: CallNotifications) -> bool:
        self._listener.moved(observed.status)
        return await super()._tell(observed, told)


class OwnCall:
    """`exchange` is what `ask` serves now: what cancels it says there why."""

    def __init__(
        self, server: Server, principal: Principal, listener: Listener, *, log_level: str | None, timeout: float | None
    ) -> None:
        """`log_level`: the least of what is to be heard, None for nothing; `timeout`: seconds until it is to end."""
        self._server = server
        self._principal = principal
        self._listener = listener
        self._log_level = log_level
        self._ends_at = None if timeout is None else time.monotonic() + timeout
        self.exchange: CallExchange | None = None

    async def ask(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The response to a `tools/call` with these params: a JSON-RPC message, which may ask for input."""
        response = _Response(self._listener)
        route = self._route(params)
        if isinstance(route, Rejection):
            return error_response(route)
        self.exchange = CallExchange(self._server, route, Headers(()), self._principal, "", response)
        calls = partial(call_stream.serve, stream_of=partial(_Stream, listener=self._listener))
        try:
            await dispatch(self.exchange, {"tools/call": calls})
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
