"""Read the params of legacy methods, and turn a legacy request into a `Route`.

A modern request describes its client in `_meta`. For a legacy request the session does. Params of
the wrong type are -32602, in the method. Source: 2025-11-25 and earlier, basic/lifecycle,
basic/utilities/cancellation, server/utilities/logging.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_types import ClientCapabilities, Implementation
from pydantic import BaseModel

from mcp_app.protocol import jsonrpc
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, RequestId, fail
from mcp_app.protocol.headers import Accept
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, Limits, Notification, RequestMessage, is_identifier
from mcp_app.protocol.legacy.questions import askable_capabilities
from mcp_app.protocol.metadata import (
    LOG_LEVELS,
    PROGRESS_TOKEN,
    TIME_LIMIT,
    RequestMetadata,
    progress_token_fault,
    raw_metadata,
    read_trace_context,
    time_limit_fault,
)
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import Revision

_MODERN_PARAMS: Final = frozenset({"inputResponses", "requestState"})
"""Members that only modern clients send."""


@dataclass(frozen=True)
class Handshake:
    """What a client declared in `initialize`."""

    client_capabilities: dict[str, Any] = field(default_factory=dict)
    client_info: dict[str, Any] = field(default_factory=dict)
    """Reported by the client itself; for display and log only."""
    log_level: str | None = None
    """Set later, by `logging/setLevel`. `None` means no log messages."""


@dataclass(frozen=True)
class Initialize:
    """`initialize`."""

    version: str
    """The requested version. `revisions.negotiate_legacy` decides which one is served."""
    handshake: Handshake


@dataclass(frozen=True)
class Cancelled:
    """`notifications/cancelled`: the id of the request to stop, in its JSON type."""

    request_id: RequestId
    reason: str


def to_route(
    request: RequestMessage, revision: Revision, handshake: Handshake, accept: Accept, limits: Limits
) -> Route | Rejection:
    """Return the request in the form that handlers take.

    An invalid progress token or `TIME_LIMIT` is -32602.

    Its capabilities are those by which the client can be asked on this request.
    """
    meta = raw_metadata(request)
    if (fault := progress_token_fault(meta, limits) or time_limit_fault(meta)) is not None:
        return fail(INVALID_PARAMS, fault, request.request_id)
    metadata = RequestMetadata(
        protocol_version=revision.name,
        client_capabilities=askable_capabilities(revision, handshake.client_capabilities, accept),
        client_info=handshake.client_info or None,
        log_level=handshake.log_level,
        progress_token=meta.get(PROGRESS_TOKEN),
        trace_context=read_trace_context(meta),
        time_limit_ms=meta.get(TIME_LIMIT),
    )
    params = {name: value for name, value in request.params.items() if name not in _MODERN_PARAMS}
    return Route(request.request_id, request.method, params, metadata, accept)


def read_initialize(route: Route) -> Initialize | Rejection:
    version, capabilities, info = (route.params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
    if not isinstance(version, str):
        return fail(INVALID_PARAMS, "params.protocolVersion must be a string.", route.request_id)
    if not _fits(ClientCapabilities, capabilities):
        return fail(INVALID_PARAMS, "params.capabilities must be an object of capabilities.", route.request_id)
    if not _fits(Implementation, info):
        return fail(INVALID_PARAMS, "params.clientInfo must have a name and a version.", route.request_id)
    assert isinstance(capabilities, dict) and isinstance(info, dict)  # noqa: PT018 - what the models take
    return Initialize(version, Handshake(capabilities, info))


def read_set_level(route: Route) -> str | Rejection:
    level = route.params.get("level")
    if level not in LOG_LEVELS:
        return fail(INVALID_PARAMS, f"params.level must be one of {', '.join(LOG_LEVELS)}.", route.request_id)
    return str(level)


def read_cancelled(notification: Notification, limits: Limits = DEFAULT_LIMITS) -> Cancelled | None:
    """Read `notifications/cancelled`.

    Return `None` for a malformed one, which is ignored (cancellation, "Error Handling").
    """
    request_id, reason = notification.params.get("requestId"), notification.params.get("reason")
    if not is_identifier(request_id, limits):
        return None
    return Cancelled(request_id, reason if isinstance(reason, str) else "")


def _fits(model: type[BaseModel], value: object) -> bool:
    return isinstance(value, Mapping) and jsonrpc.validate(model, value) is not None
