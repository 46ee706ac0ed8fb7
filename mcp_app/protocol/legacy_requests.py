"""What legacy revisions ask with methods of their own, and their requests as the `Route` that every handler takes.

What a modern request says about itself in `_meta`, a legacy one leaves to its session; mistyped params are
-32602, in the method. Source: 2025-11-25 and earlier, basic/lifecycle, basic/utilities/cancellation,
server/utilities/logging.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_types import ClientCapabilities, Implementation
from pydantic import BaseModel

from mcp_app.protocol import bounded
from mcp_app.protocol.accept import Accept
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, RequestId, fail
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, Limits, Notification, Request, is_identifier
from mcp_app.protocol.legacy_questions import askable
from mcp_app.protocol.metadata import LOG_LEVELS, PROGRESS_TOKEN, TIME_LIMIT, RequestMetadata, own_fault, raw_metadata
from mcp_app.protocol.revisions import Revision
from mcp_app.protocol.tracing import read_trace_context

_MODERN_PARAMS: Final = frozenset({"inputResponses", "requestState"})
"""They answer what no legacy client is asked in this way."""


@dataclass(frozen=True)
class Handshake:
    """What a client said of itself in `initialize`."""

    client_capabilities: dict[str, Any] = field(default_factory=dict)
    client_info: dict[str, Any] = field(default_factory=dict)
    """Self-reported; for display and log only."""
    log_level: str | None = None
    """Set later, by `logging/setLevel`; None: no log messages."""


@dataclass(frozen=True)
class Initialize:
    """`initialize`."""

    version: str
    """As asked for; `revisions.negotiate_legacy` says what is served."""
    handshake: Handshake


@dataclass(frozen=True)
class Cancelled:
    """`notifications/cancelled`: the id, with its JSON type, of the request to stop."""

    request_id: RequestId
    reason: str


def to_route(
    request: Request, revision: Revision, handshake: Handshake, accept: Accept, limits: Limits
) -> Route | Rejection:
    """The request as handlers take it: its client can be asked what `legacy_questions.askable` says.

    Only its progress token and our own key can be wrong: -32602.
    """
    meta = raw_metadata(request)
    if PROGRESS_TOKEN in meta and not is_identifier(meta[PROGRESS_TOKEN], limits):
        message = f"progressToken must be a string or an integer of at most {limits.max_id_chars} characters."
        return fail(INVALID_PARAMS, message, request.request_id)
    if (fault := own_fault(meta)) is not None:
        return fail(INVALID_PARAMS, fault, request.request_id)
    metadata = RequestMetadata(
        protocol_version=revision.name,
        client_capabilities=askable(revision, handshake.client_capabilities, accept),
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
    if not _is(ClientCapabilities, capabilities):
        return fail(INVALID_PARAMS, "params.capabilities must be an object of capabilities.", route.request_id)
    if not _is(Implementation, info):
        return fail(INVALID_PARAMS, "params.clientInfo must have a name and a version.", route.request_id)
    assert isinstance(capabilities, dict) and isinstance(info, dict)  # noqa: PT018 - what the models take
    return Initialize(version, Handshake(capabilities, info))


def read_set_level(route: Route) -> str | Rejection:
    level = route.params.get("level")
    if level not in LOG_LEVELS:
        return fail(INVALID_PARAMS, f"params.level must be one of {', '.join(LOG_LEVELS)}.", route.request_id)
    return str(level)


def read_cancelled(notification: Notification, limits: Limits = DEFAULT_LIMITS) -> Cancelled | None:
    """None for a malformed one, which is ignored (cancellation, "Error Handling")."""
    request_id, reason = notification.params.get("requestId"), notification.params.get("reason")
    if not is_identifier(request_id, limits):
        return None
    return Cancelled(request_id, reason if isinstance(reason, str) else "")


def _is(model: type[BaseModel], value: object) -> bool:
    return isinstance(value, Mapping) and bounded.parse(model, value) is not None
