"""The rungs of the ladder that need no body: Host, Origin, HTTP method, media type, declared size.

Refuses requests that a hostile web page could make a browser send (DNS rebinding), on every HTTP method and
before the body is read. Source: 2026-07-28 streamable-http "Security & Endpoint", "Earlier Streamable HTTP
Revisions".
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from mcp_app.protocol.accept import KEPT, check_content_type
from mcp_app.protocol.errors import FORBIDDEN, METHOD_NOT_ALLOWED, Rejection, body_too_large, refuse
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.legacy_inbound import check_listens, check_session_version, is_legacy_connection

_HOST: Final = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f.:]+\])(?::[0-9]*)?")
_LOOPBACK_ORIGIN: Final = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")


def check_connection(
    http_method: str,
    headers: Headers,
    *,
    allowed_hosts: Collection[str],
    allowed_origins: Collection[str],
    max_body_bytes: int,
    allow_loopback_origins: bool = False,
) -> Rejection | None:
    """Check what is known before the body arrives; None lets the request pass.

    `allowed_hosts` follows Django's ALLOWED_HOSTS: `example.com` (any port), `.example.com` (subdomains too),
    `*`. `allowed_origins` are exact (`https://example.com`); `allow_loopback_origins` adds loopback origins
    of any port.
    """
    if not _is_served(headers.value("Host") or "", tuple(allowed_hosts)):
        return refuse(FORBIDDEN, "The Host header names no host that this server serves.")
    if not _origin_allowed(headers, allowed_origins, allow_loopback_origins):
        return refuse(FORBIDDEN, "The Origin header names no origin that this server allows.")
    if http_method in ("GET", "DELETE"):
        if (refusal := check_session_version(headers)) is not None:
            return refusal
        if is_legacy_connection(headers):
            return check_listens(headers) if http_method == "GET" else None
    if http_method != "POST":
        return refuse(
            METHOD_NOT_ALLOWED,
            "Send each message as an HTTP POST.",
            headers=((b"allow", b"POST"),),
            bodiless=http_method == "HEAD",
        )
    if (refusal := check_content_type(headers)) is not None:
        return refusal
    return body_too_large(max_body_bytes) if _declares_more(headers, max_body_bytes) else None


@lru_cache(KEPT)
def _is_served(host_field: str, allowed: tuple[str, ...]) -> bool:
    parsed = _HOST.fullmatch(host_field.lower())
    if parsed is None:
        return False
    host = parsed["name"].removesuffix(".")
    return any(_matches(host, pattern.lower()) for pattern in allowed)


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("."):
        return host == pattern[1:] or host.endswith(pattern)
    return pattern in ("*", host)


def _origin_allowed(headers: Headers, allowed: Collection[str], allow_loopback: bool) -> bool:
    if not headers.values("Origin"):
        return True
    origin = headers.value("Origin")
    if origin is None:
        return False
    return origin in allowed or (allow_loopback and _LOOPBACK_ORIGIN.fullmatch(origin) is not None)


def _declares_more(headers: Headers, max_bytes: int) -> bool:
    """A lying length is caught by whoever counts the bytes; an honest one saves both sides the upload."""
    declared = headers.value("Content-Length") or ""
    digits = declared.lstrip("0")
    if not (declared.isascii() and declared.isdigit()):
        return False
    return len(digits) > len(str(max_bytes)) or int(digits or "0") > max_bytes
