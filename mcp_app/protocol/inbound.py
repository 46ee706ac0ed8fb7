"""The ladder: one POST's headers and body to a `Route`, `Notified` or `Rejection`; the first failed rung
decides.

    1. parse         -32700, -32600      4. metadata      -32602
    2. era           `legacy_inbound`    5. Mcp-Method, Mcp-Name  -32020
    3. version       -32020, -32022      6. Accept        406

Values, not responses and not exceptions. Whether the method exists is not a rung: dispatch knows.
`connection` holds the rungs before the body. Source: 2026-07-28 streamable-http "Server Validation",
basic/versioning.
"""

from dataclasses import dataclass
from typing import Any, TypeGuard

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
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, Limits, Notification, Request, decode, read_message
from mcp_app.protocol.legacy_inbound import LegacyPost, check_session_version, read_post
from mcp_app.protocol.metadata import PROTOCOL_VERSION as PROTOCOL_VERSION_KEY
from mcp_app.protocol.metadata import RequestMetadata, raw_metadata, read_metadata
from mcp_app.protocol.revisions import SUPPORTED_VERSIONS, Era, decide_era


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


def classify(
    headers: Headers, body: bytes, limits: Limits = DEFAULT_LIMITS
) -> Route | Notified | LegacyPost | Rejection:
    """Climb the ladder with one complete body. Never raises on input."""
    decoded = decode(body, limits)
    if isinstance(decoded, Rejection):
        return decoded
    header = read_field(headers, PROTOCOL_VERSION)
    if not isinstance(header, HeaderFault) and decide_era(header, declares_version(decoded.value)) is Era.LEGACY:
        return read_post(headers, decoded, header, limits)
    message = read_message(decoded, limits)
    if isinstance(message, Rejection):
        return message
    if isinstance(message, Notification):
        return check_session_version(headers) or Notified(message.method, message.params)
    if (refusal := _check_version(header, message)) is not None:
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


def declares_version(body: object) -> TypeGuard[dict[str, Any]]:
    """Whether `params._meta` names a protocol version, as only a modern message does."""
    params = body.get("params") if isinstance(body, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION_KEY in meta


def _check_version(header: str | HeaderFault | None, request: Request) -> Rejection | None:
    if isinstance(header, HeaderFault):
        return mismatch(header.reason, request.request_id)
    declared = raw_metadata(request).get(PROTOCOL_VERSION_KEY)
    if (refusal := check_version_header(header, declared, request.request_id)) is not None:
        return refusal
    if header is not None and header not in SUPPORTED_VERSIONS:
        return unsupported(f"Protocol version {clip(header)!r} is not supported.", header, request.request_id)
    return None


def unsupported(message: str, requested: str, request_id: RequestId) -> Rejection:
    """-32022, with the versions that are served."""
    data = {"supported": list(SUPPORTED_VERSIONS), "requested": requested}
    return refuse(UNSUPPORTED_VERSION, message, request_id, data=data)
