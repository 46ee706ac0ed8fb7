"""Check and classify one incoming request, over HTTP or on a line of stdio.

Theory of operation. A request climbs a ladder of checks. The first check that fails decides, and
its `Rejection` is returned; a request that passes them all becomes a `Route`. Checks return values:
they raise nothing on input and send nothing.

`check_connection` runs before the body is read:

    1. Host, then Origin     403
    2. HTTP method           405
    3. media type            415
    4. declared size         413

`classify` runs with the complete body:

    1. parse                   -32700, -32600
    2. era                     messages of the legacy era go to `legacy.inbound`
    3. version                 -32020, -32022
    4. metadata                -32602
    5. Mcp-Method, Mcp-Name    -32020
    6. Accept                  406

`classify_line` does the same for stdio, without the checks that need headers. Whether the method
exists is not checked here but when the request is dispatched. Whether a legacy session exists is
the transport's to check.

Checking Host and Origin on every HTTP method keeps a hostile web page from using a browser against
the server (DNS rebinding). CORS lets pages of allowed origins call the endpoint from a browser and
read its responses. Every response names the requesting origin, never `*`. The server never sends
`Access-Control-Allow-Credentials`: clients send their credential in the `Authorization` field, and
no page of another origin may use a cookie.

Source: 2026-07-28 streamable-http "Server Validation", "Security & Endpoint", "Earlier Streamable
HTTP Revisions"; basic/versioning; basic/transports/stdio "Request Metadata"; the Fetch standard,
"CORS protocol".
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeGuard

from mcp_app.protocol.errors import (
    FORBIDDEN,
    METHOD_NOT_ALLOWED,
    UNSUPPORTED_VERSION,
    HTTPFields,
    Rejection,
    RequestId,
    body_too_large,
    clip,
    refuse,
)
from mcp_app.protocol.headers import (
    CACHED_VALUES,
    PROTOCOL_VERSION_HEADER,
    Accept,
    HeaderFault,
    Headers,
    check_content_type,
    check_method_headers,
    mismatch,
    negotiate,
    read_field,
)
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, Decoded, Limits, Notification, RequestMessage, decode, read_message
from mcp_app.protocol.legacy.inbound import (
    LegacyMessages,
    LegacyPost,
    check_accepts_events,
    check_session_version,
    is_legacy_connection,
    read_messages,
    read_post,
)
from mcp_app.protocol.metadata import PROTOCOL_VERSION, raw_metadata, read_metadata
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import LEGACY, SUPPORTED_VERSIONS

ACCEPT_ANYTHING: Final = Accept(json=True, event_stream=True)
"""What a client without headers accepts."""
_VARY: Final = (b"vary", b"Origin")
_EXPOSED_FIELDS: Final = b"Mcp-Session-Id, WWW-Authenticate, MCP-Protocol-Version"
"""The response fields that pages may read."""
_ALLOWED_METHODS: Final = b"POST, GET, DELETE"
_PREFLIGHT_MAX_AGE_SECONDS: Final = b"3600"
_REQUESTED_METHOD_HEADER: Final = "Access-Control-Request-Method"
_REQUESTED_FIELDS_HEADER: Final = "Access-Control-Request-Headers"
_HOST: Final = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f.:]+\])(?::[0-9]*)?")
_LOOPBACK_ORIGIN: Final = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
_FIELD_NAMES: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+(?: *, *[\w!#$%&'*+.^`|~-]+)*", re.ASCII)


@dataclass(frozen=True)
class ModernNotification:
    """A notification of the modern era, which is answered by 202 and has no effect.

    Revision 2026-07-28 defines no notifications over HTTP: a client cancels by closing the stream.
    """

    method: str
    params: dict[str, Any]


def check_connection(
    http_method: str,
    headers: Headers,
    *,
    allowed_hosts: Collection[str],
    allowed_origins: Collection[str],
    max_body_bytes: int,
    allow_loopback_origins: bool = False,
) -> Rejection | None:
    """Check a request before its body arrives.

    Return `None` if it passes or is a CORS preflight request.

    `allowed_hosts` has the format of Django's `ALLOWED_HOSTS`: `example.com` (any port),
    `.example.com` (subdomains too), `*`. `allowed_origins` are exact (`https://example.com`);
    `allow_loopback_origins` adds loopback origins on any port.
    """
    if not _is_served_host(headers.value("Host") or "", tuple(allowed_hosts)):
        return refuse(FORBIDDEN, "This server does not serve the host in the Host header.")
    origin = headers.value("Origin")  # also `None` if it was sent twice
    if headers.values("Origin") and (
        origin is None or not is_allowed_origin(origin, allowed_origins, loopback=allow_loopback_origins)
    ):
        return refuse(FORBIDDEN, "This server does not allow the origin in the Origin header.")
    if preflight_fields(http_method, headers) is not None:
        return None
    if http_method in ("GET", "DELETE"):
        if (refusal := check_session_version(headers)) is not None:
            return refusal
        if is_legacy_connection(headers):
            return check_accepts_events(headers) if http_method == "GET" else None
    if http_method != "POST":
        return refuse(
            METHOD_NOT_ALLOWED,
            "Send each message as an HTTP POST.",
            headers=((b"allow", b"POST"),),
            bodiless=http_method == "HEAD",
        )
    if (refusal := check_content_type(headers)) is not None:
        return refusal
    return body_too_large(max_body_bytes) if _declares_more_than(headers, max_body_bytes) else None


def classify(
    headers: Headers, body: bytes, limits: Limits = DEFAULT_LIMITS
) -> Route | ModernNotification | LegacyPost | Rejection:
    """Check one complete body with its headers. Never raises on input."""
    decoded = decode(body, limits)
    if isinstance(decoded, Rejection):
        return decoded
    header = read_field(headers, PROTOCOL_VERSION_HEADER)
    # An unknown version counts as modern, so that its rejection lists the versions that are served.
    if (
        not isinstance(header, HeaderFault)
        and not declares_version(decoded.value)
        and (header is None or header in LEGACY)
    ):
        return read_post(headers, decoded, header, limits)
    message = read_message(decoded, limits)
    if isinstance(message, Rejection):
        return message
    if isinstance(message, Notification):
        return check_session_version(headers) or ModernNotification(message.method, message.params)
    if (refusal := _check_version(header, message)) is not None:
        return refusal
    metadata = read_metadata(message, limits)
    if isinstance(metadata, Rejection):
        return metadata
    if (refusal := check_method_headers(headers, message)) is not None:
        return refusal
    accept = negotiate(headers, message.method, message.request_id)
    if isinstance(accept, Rejection):
        return accept
    return Route(message.request_id, message.method, message.params, metadata, accept)


def classify_line(line: bytes, limits: Limits = DEFAULT_LIMITS) -> Route | LegacyMessages | Rejection:
    """Check one line of stdio: a modern request, or messages that declare no version.

    Never raises on input.
    """
    decoded = decode(line, limits)
    if isinstance(decoded, Rejection):
        return decoded
    if declares_version(decoded.value) and "id" in decoded.value:
        return _classify_modern_line(decoded, limits)
    return read_messages(decoded, limits)


def declares_version(body: object) -> TypeGuard[dict[str, Any]]:
    """Return whether `params._meta` names a protocol version, as only a modern message does."""
    params = body.get("params") if isinstance(body, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def _check_version(header: str | HeaderFault | None, request: RequestMessage) -> Rejection | None:
    """Check the version header of a modern request.

    It must equal the version in `_meta` if that is a string.
    """
    if isinstance(header, HeaderFault):
        return mismatch(header.reason, request.request_id)
    if header is None:
        return mismatch(f"The header {PROTOCOL_VERSION_HEADER} is missing.", request.request_id)
    declared = raw_metadata(request).get(PROTOCOL_VERSION)
    if isinstance(declared, str) and declared != header:
        reason = f"The header {PROTOCOL_VERSION_HEADER} says {clip(header)!r}, the body {clip(declared)!r}."
        return mismatch(reason, request.request_id)
    if header not in SUPPORTED_VERSIONS:
        return unsupported_version(f"Protocol version {clip(header)!r} is not supported.", header, request.request_id)
    return None


def unsupported_version(message: str, requested: str, request_id: RequestId) -> Rejection:
    """Reject a protocol version that is not served: -32022, with the versions that are."""
    data = {"supported": list(SUPPORTED_VERSIONS), "requested": requested}
    return refuse(UNSUPPORTED_VERSION, message, request_id, data=data)


def _classify_modern_line(decoded: Decoded, limits: Limits) -> Route | Rejection:
    message = read_message(decoded, limits)
    if isinstance(message, Rejection):
        return message
    assert isinstance(message, RequestMessage), "it has an id"
    declared = raw_metadata(message)[PROTOCOL_VERSION]
    if isinstance(declared, str) and declared not in SUPPORTED_VERSIONS:
        return unsupported_version(
            f"Protocol version {clip(declared)!r} is not supported.", declared, message.request_id
        )
    metadata = read_metadata(message, limits)
    if isinstance(metadata, Rejection):
        return metadata
    return Route(message.request_id, message.method, message.params, metadata, ACCEPT_ANYTHING)


@lru_cache(CACHED_VALUES)
def _is_served_host(host_field: str, allowed: tuple[str, ...]) -> bool:
    parsed = _HOST.fullmatch(host_field.lower())
    if parsed is None:
        return False
    host = parsed["name"].removesuffix(".")
    return any(_matches(host, pattern.lower()) for pattern in allowed)


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("."):
        return host == pattern[1:] or host.endswith(pattern)
    return pattern in ("*", host)


def _declares_more_than(headers: Headers, max_bytes: int) -> bool:
    """Return whether Content-Length exceeds `max_bytes`.

    Rejecting it here saves the upload. The transport counts the bytes, in case the length is wrong.
    """
    declared = headers.value("Content-Length") or ""
    digits = declared.lstrip("0")
    if not (declared.isascii() and declared.isdigit()):
        return False
    return len(digits) > len(str(max_bytes)) or int(digits or "0") > max_bytes


def is_allowed_origin(origin: str, allowed: Collection[str], *, loopback: bool) -> bool:
    """Return whether `origin` is in `allowed` or, with `loopback`, on this machine at any port."""
    return origin in allowed or (loopback and _LOOPBACK_ORIGIN.fullmatch(origin) is not None)


def cors_fields(headers: Headers, allowed: Collection[str], *, loopback: bool) -> HTTPFields:
    """Return the CORS fields of every response to a request, including rejections."""
    origin = headers.value("Origin")
    if origin is None or not is_allowed_origin(origin, allowed, loopback=loopback):
        return (_VARY,)
    return (
        _VARY,
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED_FIELDS),
    )


def preflight_fields(http_method: str, headers: Headers) -> HTTPFields | None:
    """Return the extra fields of the response to a preflight request, or `None` for other requests.

    A page may send any header field, because `Mcp-Param-…` fields contain the names of tool
    parameters and a site's authenticator may read fields of its own.
    """
    if http_method != "OPTIONS" or not (headers.value("Origin") and headers.value(_REQUESTED_METHOD_HEADER)):
        return None
    requested = headers.value(_REQUESTED_FIELDS_HEADER) or ""
    named = (requested,) if _FIELD_NAMES.fullmatch(requested) else ()
    return (
        (b"access-control-allow-methods", _ALLOWED_METHODS),
        *((b"access-control-allow-headers", each.encode("latin-1")) for each in named),
        (b"access-control-max-age", _PREFLIGHT_MAX_AGE_SECONDS),
    )
