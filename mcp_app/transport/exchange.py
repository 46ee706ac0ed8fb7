"""One request being served: what every method's handler is given, and how results leave it.

Refuses to know any method.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from mcp_app import languages
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.endpoint_settings import EndpointSettings
from mcp_app.lifecycle.audit import SYSTEM, Actor
from mcp_app.protocol.errors import Rejection, RequestId
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.jsonrpc import error_response
from mcp_app.protocol.jsonrpc import response as rpc_response
from mcp_app.states import Cause
from mcp_app.tracing import TOOL_ERROR, Span
from mcp_app.transport.callers import Caller, Trusted
from mcp_app.transport.remaining import Remaining
from mcp_app.transport.responder import Responder
from mcp_app.transport.server import Server


@dataclass(slots=True)
class Exchange:
    """A request on its way to its response."""

    mirrors_params: ClassVar[bool] = True
    """Whether its headers repeat what its params say."""
    makes_tasks: ClassVar[bool] = True
    """Whether its era knows calls that become tasks."""

    server: Server
    route: Route
    headers: Headers
    principal: Principal
    remote_address: str
    response: Responder
    caller: Caller = field(default_factory=Trusted)
    """The principal, to be asked again while a stream stays open."""
    disconnected: bool = False
    """Says, to a handler that is being cancelled, whether the client left or the server process ends."""
    cancelled: bool = False
    """Says so as well: whether the client asked for it, by `notifications/cancelled`."""
    reason: str = ""
    """Why it asked, in its own words."""
    span: Span = field(default_factory=Span)
    remaining: Remaining | None = None
    """What stays open over HTTP after its handler has returned."""

    @property
    def request_id(self) -> RequestId | None:
        return self.route.request_id

    @property
    def session_id(self) -> UUID | None:
        """The session it belongs to; there are none in the modern era."""
        return None

    @property
    def language(self) -> str:
        """The site's language that its client prefers; "": the site's own."""
        return languages.preferred(", ".join(self.headers.values(languages.HEADER)))

    @property
    def endpoint(self) -> EndpointSettings:
        """The settings of the endpoint that it came to."""
        return settings.at(self.principal.endpoint)

    @property
    def of_itself(self) -> dict[str, Any]:
        """What the request says of itself, for `lifecycle.submission.Asking`."""
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
        """The endpoint's MCP Implementation object."""
        return server_info(self.principal.endpoint)

    async def reject(self, rejection: Rejection) -> None:
        """Send an error: as the last message of a stream that was begun."""
        self.span.fail(str(rejection.code), rejection.message, code=rejection.code)
        if self.response.started:
            await self.response.event(error_response(rejection), last=True)
        else:
            await self.response.reject(rejection)

    async def complete(self, result: Mapping[str, Any]) -> None:
        """Send the final response, in the form that was begun or else in the simplest that the client takes."""
        if result.get("isError"):
            self.span.fail(TOOL_ERROR)
        message = rpc_response(self.route.request_id, result)
        if not self.response.started and self.route.accept.json:
            await self.response.json(message)
            return
        if not self.response.started:
            await self.response.start_events()
        await self.response.event(message, last=True)

    def interruption(self) -> tuple[Cause, Actor]:
        """Why the handler is being cancelled, and whose doing it is."""
        if self.cancelled:
            return Cause.CLIENT, Actor(self.principal.label, self.remote_address)
        if self.disconnected:
            return Cause.DISCONNECT, Actor(self.principal.label, self.remote_address)
        return Cause.SHUTDOWN, SYSTEM


def server_info(endpoint: str) -> dict[str, Any]:
    """The MCP Implementation object of an endpoint."""
    own = settings.at(endpoint)
    info = {"name": own.SERVER_NAME, "version": own.SERVER_VERSION}
    return info if own.SERVER_TITLE is None else {**info, "title": own.SERVER_TITLE}


def introduction(endpoint: str) -> dict[str, Any]:
    """The same where the endpoint says who it is, with its icons: other results are not to repeat those."""
    icons = settings.at(endpoint).SERVER_ICONS
    return {**server_info(endpoint), **({"icons": list(icons)} if icons else {})}
