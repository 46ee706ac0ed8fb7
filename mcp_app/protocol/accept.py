"""Media types: what a client accepts, and whether what it sent is JSON.

Refuses to guess beyond RFC 9110: a client that names neither JSON nor event streams gets 406. Clients must
simply connect, so an absent Accept means both (2026-07-28 asks clients for both, and many send neither).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mcp_app.protocol.errors import (
    NOT_ACCEPTABLE,
    UNSUPPORTED_MEDIA_TYPE,
    Rejection,
    RequestId,
    refuse,
)
from mcp_app.protocol.headers import Headers

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

KEPT: Final = 128
"""Values of a field that are read once: clients send the same with each request."""

_ZERO_QUALITY: Final = re.compile(r"0(?:\.0{0,3})?")
_CHARSET: Final = re.compile(r'"?utf-?8"?', re.IGNORECASE)


@dataclass(frozen=True)
class Accept:
    """Which forms of answer a client takes; at least one of them."""

    json: bool
    event_stream: bool


def negotiate(headers: Headers, method: str, request_id: RequestId | None) -> Accept | Rejection:
    """Read Accept for a request. `subscriptions/listen` can only be answered by an event stream."""
    accept = _accept(",".join(headers.values("Accept")))
    if method == "subscriptions/listen" and not accept.event_stream:
        return refuse(NOT_ACCEPTABLE, f"{method} needs Accept: {EVENT_STREAM}.", request_id)
    if not accept.json and not accept.event_stream:
        return refuse(NOT_ACCEPTABLE, f"Send Accept: {JSON}, {EVENT_STREAM}.", request_id)
    return accept


def check_content_type(headers: Headers) -> Rejection | None:
    """Only plain JSON in UTF-8 is read: anything else could have been posted by a web page without asking."""
    if not _is_json(headers.value("Content-Type") or ""):
        return refuse(UNSUPPORTED_MEDIA_TYPE, f"Send Content-Type: {JSON}, in UTF-8.")
    if any(encoding.lower() != "identity" for encoding in headers.values("Content-Encoding")):
        return refuse(UNSUPPORTED_MEDIA_TYPE, "Send the body without a Content-Encoding.")
    return None


@lru_cache(KEPT)
def _is_json(content_type: str) -> bool:
    media_type, *parameters = content_type.split(";")
    charset_ok = all(
        _CHARSET.fullmatch(value.strip())
        for name, _, value in (parameter.partition("=") for parameter in parameters)
        if name.strip().lower() == "charset"
    )
    return media_type.strip().lower() == JSON and charset_ok


@lru_cache(KEPT)
def _accept(text: str) -> Accept:
    ranges = _media_ranges(text)
    return Accept(json=_accepts(ranges, JSON), event_stream=_accepts(ranges, EVENT_STREAM))


def _media_ranges(text: str) -> dict[str, bool]:
    """Media range → wanted. Only q=0 refuses; the preference among the others is the server's."""
    if not text.strip():
        return {"*/*": True}
    ranges: dict[str, bool] = {}
    for element in text.split(","):
        media_range, *parameters = (part.strip().lower() for part in element.split(";"))
        refused = any(
            name.strip() == "q" and _ZERO_QUALITY.fullmatch(value.strip())
            for name, _, value in (parameter.partition("=") for parameter in parameters)
        )
        ranges[media_range] = not refused
    return ranges


def _accepts(ranges: dict[str, bool], media_type: str) -> bool:
    """The most specific matching range decides (RFC 9110, section 12.5.1)."""
    candidates = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((ranges[candidate] for candidate in candidates if candidate in ranges), False)
