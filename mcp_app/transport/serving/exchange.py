"""The request that a handler receives, with the methods to answer it, and its trace span."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from mcp_app import languages, tracing
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.registry import registered_tools
from mcp_app.conf import server_name, settings
from mcp_app.endpoint_settings import EndpointSettings
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.protocol.errors import Rejection, RequestId
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.protocol.jsonrpc import response as rpc_response
from mcp_app.protocol.requests import Route
from mcp_app.protocol.sse import EventId
from mcp_app.states import Cause
from mcp_app.tracing import NOT_RECORDED, TOOL_ERROR, Span
from mcp_app.transport.server import Server
from mcp_app.transport.serving.callers import (
    ASK_AGAIN_SECONDS,
    CallerStatus,
    LostAccess,
    StreamCaller,
    UnrevocableCaller,
    lost_access,
)
from mcp_app.transport.serving.responder import DetachedResponse, PeerGoneError, Responder


@dataclass(slots=True)
class Interruption:
    """Why a request's handler is cancelled, set before that happens.

    If neither is set, the cause is `SHUTDOWN`: only the end of the server process cancels a handler
    for another reason.
    """

    disconnected: bool = False
    cancelled: bool = False
    """Whether the client sent `notifications/cancelled`."""
    reason: str = ""
    """The reason that the client gave."""

    @property
    def cause(self) -> Cause:
        if self.cancelled:
            return Cause.CLIENT
        return Cause.DISCONNECT if self.disconnected else Cause.SHUTDOWN


@dataclass(kw_only=True, slots=True)
class Exchange:
    """A request on its way to its response."""

    server: Server
    route: Route
    headers: Headers
    principal: Principal
    remote_address: str
    response: Responder
    caller: StreamCaller = field(default_factory=UnrevocableCaller)
    """The caller, who is confirmed while a stream stays open."""
    interruption: Interruption = field(default_factory=Interruption)
    session_id: UUID | None = None
    """The stored session. Only legacy clients over HTTP have one."""
    mirrors_params: bool = True
    """Whether its headers must repeat some of its params."""
    makes_tasks: bool = True
    """Whether a call may become a task."""
    span: Span = NOT_RECORDED
    detached: DetachedResponse | None = None
    """The response that stays open over HTTP after its handler has returned."""

    @property
    def request_id(self) -> RequestId | None:
        return self.route.request_id

    @property
    def actor(self) -> Actor:
        """The client, for the audit."""
        return Actor(self.principal.label, self.remote_address)

    @property
    def language(self) -> str:
        """The language of the site that the client prefers, or "" for the site's default."""
        return languages.preferred(", ".join(self.headers.values(languages.HEADER)))

    @property
    def endpoint(self) -> EndpointSettings:
        """The settings of its endpoint."""
        return settings.at(self.principal.endpoint)

    @property
    def submission_fields(self) -> dict[str, Any]:
        """The fields of a `Submission` that describe the request and its client."""
        metadata = self.route.metadata
        return {
            "jsonrpc_id": self.route.request_id,
            "server": self.server.identity.boot_id,
            "progress_token": metadata.progress_token,
            "log_level": metadata.log_level or "",
            "client_info": metadata.client_info or {},
            "client_capabilities": metadata.client_capabilities,
            "trace_context": self.span.carrier(metadata.trace_context),
            "language": self.language,
            "remote_address": self.remote_address,
            "caller_limit": metadata.time_limit_ms / 1000 if metadata.time_limit_ms is not None else None,
        }

    def server_info(self) -> dict[str, Any]:
        """Return the endpoint's MCP Implementation object. Shared: do not change it."""
        info: dict[str, Any] = self.server.once(server_info, self.principal.endpoint)
        return info

    async def confirm_caller(self) -> LostAccess | None:
        """Call the site's authenticator again. Return `None` if it still accepts the caller.

        While the authenticator fails, the client receives keep-alives only.
        """
        while (status := await self.caller.confirm()) == CallerStatus.UNANSWERED:
            if self.response.started and self.response.silent_seconds >= settings.KEEP_ALIVE:
                await self.response.keep_alive()
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        return lost_access(status, self.principal.endpoint, self.request_id)

    async def reject(self, rejection: Rejection, event_id: EventId | None = None) -> None:
        """Send an error. On an event stream it is the last message, with `event_id`."""
        self.span.fail(str(rejection.code), rejection.message, code=rejection.code)
        if self.response.started:
            await self.response.event(error_response(rejection), last=True, event_id=event_id)
        else:
            await self.response.reject(rejection)

    async def complete(self, result: Mapping[str, Any], event_id: EventId | None = None) -> None:
        """Send the result, as JSON if the client accepts that and no event stream has begun.

        On an event stream it is the last message, with `event_id`.
        """
        if result.get("isError"):
            self.span.fail(TOOL_ERROR)
        message = rpc_response(self.route.request_id, result)
        if not self.response.started and self.route.accept.json:
            await self.response.json(message)
            return
        if not self.response.started:
            await self.response.start_events()
        await self.response.event(message, last=True, event_id=event_id)

    async def end_without_response(self) -> None:
        """End a response without a message.

        The client has cancelled the request, or follows it on another connection.
        """
        if not self.response.started and self.route.accept.event_stream:
            await self.response.start_events()
        await self.response.end()


def server_info(endpoint: str) -> dict[str, Any]:
    """Return the MCP Implementation object of an endpoint."""
    own = settings.at(endpoint)
    info = {"name": server_name(endpoint), "version": own.SERVER_VERSION}
    return info if own.SERVER_TITLE is None else {**info, "title": own.SERVER_TITLE}


def introduction(endpoint: str) -> dict[str, Any]:
    """Return `server_info` with icons, for `server/discover` and `initialize` only."""
    icons = settings.at(endpoint).SERVER_ICONS
    return {**server_info(endpoint), **({"icons": list(icons)} if icons else {})}


UNKNOWN: Final = "_OTHER"
HTTP: Final = MappingProxyType({"network.transport": "tcp", "network.protocol.name": "http"})
PIPE: Final = MappingProxyType({"network.transport": "pipe"})
TARGETS: Final = MappingProxyType(
    {
        "tools/call": ("gen_ai.tool.name", "name"),
        "prompts/get": ("gen_ai.prompt.name", "name"),
        "resources/read": ("mcp.resource.uri", "uri"),
    }
)
"""For each method, the span attribute that names its target, and the member of its params with that
name."""


def request_span(exchange: Exchange, *, known: bool) -> AbstractContextManager[None]:
    """Return a context that traces a request, if traces are recorded.

    A method that is not `known` is not named, because each typo of a client would be a new name.
    Source: OpenTelemetry's semantic conventions for MCP.
    """
    is_recorded = tracing.is_recorded(exchange.route.metadata.trace_context)
    return _traced(exchange, known=known) if is_recorded else _UNTRACED


_UNTRACED: Final = nullcontext()


@contextmanager
def _traced(exchange: Exchange, *, known: bool) -> Iterator[None]:
    method = exchange.route.method if known else UNKNOWN
    attributes = _attributes(exchange, method)
    tool = attributes.get("gen_ai.tool.name")
    name = f"{method} {tool}" if tool in registered_tools() else method
    with tracing.span(name, attributes, exchange.route.metadata.trace_context, of_peer=True) as exchange.span:
        try:
            yield
        except PeerGoneError as error:
            exchange.span.fail(tracing.CANCELLED, str(error))
            raise
        except asyncio.CancelledError:
            exchange.span.fail(tracing.CANCELLED, exchange.interruption.cause.value)
            raise


def _attributes(exchange: Exchange, method: str) -> dict[str, str]:
    route = exchange.route
    attributes = {
        "mcp.method.name": method,
        "mcp.protocol.version": route.metadata.protocol_version,
        "jsonrpc.request.id": str(route.request_id),
        **(PIPE if exchange.response.shared else HTTP),
    }
    if exchange.remote_address:
        attributes["client.address"] = exchange.remote_address
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    if method in TARGETS:
        attribute, member = TARGETS[method]
        attributes[attribute] = str(route.params.get(member, ""))
    return attributes
