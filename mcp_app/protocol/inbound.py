"""The ladder: one POST's headers and body to a `Route`, `Notified` or `Rejection`; the first failed rung
decides.

    1. parse         -32700, -32600      4. metadata      -32602
    2. era           -32022 (legacy)     5. Mcp-Method, Mcp-Name  -32020
    3. version       -32020, -32022      6. Accept        406

Values, not responses and not exceptions. Whether the method exists is not a rung: dispatch knows.
`connection` holds the rungs before the body. Source: 2026-07-28 streamable-http "Server Validation",
basic/versioning.
"""

from dataclasses import dataclass
from typing import Any

from mcp_app.protocol.accept import Accept, negotiate
from mcp_app.protocol.errors import UNSUPPORTED_VERSION, Rejection, RequestId, clip, refuse
from mcp_app.protocol.headers import (
    PROTOCOL_VERSION,
    HeaderFault,
    Headers,
    check_method_header,
    check_name_header,
    check_version_header,
    mismatch,
    read_field,
)
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, Limits, Notification, Request, parse_message
from mcp_app.protocol.metadata import PROTOCOL_VERSION as PROTOCOL_VERSION_KEY
from mcp_app.protocol.metadata import RequestMetadata, raw_metadata, read_metadata
from mcp_app.protocol.revisions import ASSUMED_LEGACY, MODERN, SUPPORTED_VERSIONS, Era, decide_era


@dataclass(frozen=True)
class Route:
    """A request that may be dispatched: well-formed, of a served revision, its headers agreeing with its
    body."""

    request_id: RequestId
    method: str
    params: dict[str, Any]
    """As sent, `_meta` included."""
    metadata: RequestMetadata
    accept: Accept


@dataclass(frozen=True)
class Notified:
    """A notification, answered by 202 whatever it says.

    Revision 2026-07-28 defines none over HTTP and cancels by closing the stream: `notifications/cancelled`
    has no effect.
    """

    method: str
    params: dict[str, Any]


def classify(headers: Headers, body: bytes, limits: Limits = DEFAULT_LIMITS) -> Route | Notified | Rejection:
    """Climb the ladder with one complete body. Never raises on input."""
    message = parse_message(body, limits)
    if isinstance(message, Rejection):
        return message
    if isinstance(message, Notification):
        return Notified(message.method, message.params)
    if (refusal := _check_version(headers, message)) is not None:
        return refusal
    metadata = read_metadata(message, limits)
    if isinstance(metadata, Rejection):
        return metadata
    refusal = check_method_header(headers, message) or check_name_header(headers, message)
    if refusal is not None:
        return refusal
    accept = negotiate(headers, message.method, message.request_id)
    if isinstance(accept, Rejection):
        return accept
    return Route(message.request_id, message.method, message.params, metadata, accept)


def _check_version(headers: Headers, request: Request) -> Rejection | None:
    header = read_field(headers, PROTOCOL_VERSION)
    if isinstance(header, HeaderFault):
        return mismatch(header.reason, request.request_id)
    metadata = raw_metadata(request)
    if decide_era(header, PROTOCOL_VERSION_KEY in metadata) is Era.LEGACY:
        return refuse_legacy(header, request)
    refusal = check_version_header(header, metadata.get(PROTOCOL_VERSION_KEY), request.request_id)
    if refusal is not None:
        return refusal
    if header is not None and header not in SUPPORTED_VERSIONS:
        return unsupported(f"Protocol version {clip(header)!r} is not supported.", header, request.request_id)
    return None


def refuse_legacy(header: str | None, request: Request) -> Rejection:
    """Name the versions served: it may be all that an old client can show its user (basic/versioning)."""
    asked = request.params.get("protocolVersion") if request.method == "initialize" else None
    requested = asked if isinstance(asked, str) else header or ASSUMED_LEGACY
    return unsupported(
        f"This server speaks MCP {MODERN}, without an initialize handshake; use a client that does.",
        requested,
        request.request_id,
    )


def unsupported(message: str, requested: str, request_id: RequestId) -> Rejection:
    data = {"supported": list(SUPPORTED_VERSIONS), "requested": requested}
    return refuse(UNSUPPORTED_VERSION, message, request_id, data=data)
