"""The ladder for a transport without headers: one line of stdio to a `Route`, `Notified` or `Rejection`.

The rungs are those of `inbound`, without those that hold headers against the body. Values, not responses and not
exceptions. Source: 2026-07-28 basic/transports/stdio "Request Metadata".
"""

from typing import Final

from mcp_app.protocol.accept import Accept
from mcp_app.protocol.errors import Rejection, RequestId, clip
from mcp_app.protocol.inbound import Notified, Route, unsupported
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, Limits, Notification, Request, is_identifier, parse_message
from mcp_app.protocol.metadata import PROTOCOL_VERSION, raw_metadata, read_metadata
from mcp_app.protocol.revisions import ASSUMED_LEGACY, MODERN, SUPPORTED_VERSIONS, Era, decide_era

CANCELLED: Final = "notifications/cancelled"

_ANYTHING: Final = Accept(json=True, event_stream=True)


def classify_line(line: bytes, limits: Limits = DEFAULT_LIMITS) -> Route | Notified | Rejection:
    """Climb the ladder with one message. Never raises on input."""
    message = parse_message(line, limits)
    if isinstance(message, Rejection):
        return message
    if isinstance(message, Notification):
        return Notified(message.method, message.params)
    if (refusal := _check_version(message)) is not None:
        return refusal
    metadata = read_metadata(message, limits)
    if isinstance(metadata, Rejection):
        return metadata
    return Route(message.request_id, message.method, message.params, metadata, _ANYTHING)


def cancelled_request(notified: Notified, limits: Limits = DEFAULT_LIMITS) -> RequestId | None:
    """Which request a `notifications/cancelled` names; None for any other notification, and a malformed one."""
    request_id = notified.params.get("requestId")
    if notified.method != CANCELLED or not is_identifier(request_id, limits):
        return None
    return request_id


def _check_version(request: Request) -> Rejection | None:
    metadata = raw_metadata(request)
    if decide_era(None, PROTOCOL_VERSION in metadata) is Era.LEGACY:
        return _refuse_legacy(request)
    declared = metadata[PROTOCOL_VERSION]
    if isinstance(declared, str) and declared not in SUPPORTED_VERSIONS:
        return unsupported(f"Protocol version {clip(declared)!r} is not supported.", declared, request.request_id)
    return None


def _refuse_legacy(request: Request) -> Rejection:
    """Name the versions served: it may be all that an old client can show its user (basic/versioning)."""
    asked = request.params.get("protocolVersion") if request.method == "initialize" else None
    return unsupported(
        f"This server speaks MCP {MODERN} on stdio, without an initialize handshake; use a client that does.",
        asked if isinstance(asked, str) else ASSUMED_LEGACY,
        request.request_id,
    )
