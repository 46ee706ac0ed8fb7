"""Read HTTP request fields and compare the request metadata headers with the body.

A field that is missing, repeated, malformed or different from the body is -32020. A client that
accepts neither JSON nor event streams gets 406. A client without an Accept field is assumed to
accept both: 2026-07-28 requires clients to send the field, but many do not.

Source: 2026-07-28 basic/transports/streamable-http, "Request Metadata"; RFC 9110.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from mcp_app.protocol.errors import (
    HEADER_MISMATCH,
    NOT_ACCEPTABLE,
    UNSUPPORTED_MEDIA_TYPE,
    Rejection,
    RequestId,
    clip,
    refuse,
)
from mcp_app.protocol.jsonrpc import RequestMessage

PROTOCOL_VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
PARAM_HEADER_PREFIX: Final = "Mcp-Param-"
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
CACHED_VALUES: Final = 128
"""Size of the caches of parsed field values. Clients send the same values with each request."""
NAME_SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }
)
"""Methods that need `Mcp-Name`, and the member of `params` that it repeats."""
_PLAIN: Final = re.compile(r"[\t\x20-\x7e]*")
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=")
_ZERO_QUALITY: Final = re.compile(r"0(?:\.0{0,3})?")
_CHARSET: Final = re.compile(r'"?utf-?8"?', re.IGNORECASE)


class Headers:
    """Request fields from ASGI's `(name, value)` byte pairs.

    Names match in any case. Whitespace around values is removed.
    """

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in raw:
            self._fields.setdefault(_key(name), []).append(value.decode("latin-1").strip(" \t"))

    def values(self, name: str) -> tuple[str, ...]:
        """Return every value sent under `name`, in order."""
        return tuple(self._fields.get(name.lower(), ()))

    def value(self, name: str) -> str | None:
        """Return the value of a field, or `None` if the field was not sent exactly once."""
        values = self._fields.get(name.lower())
        return values[0] if values is not None and len(values) == 1 else None


@lru_cache(256)
def _key(name: bytes) -> str:
    """Return the lower-case name. Cached, because clients send the same names again and again."""
    return name.decode("latin-1").lower()


@dataclass(frozen=True)
class HeaderFault:
    """A field that cannot be read, with the reason."""

    reason: str


@dataclass(frozen=True)
class Accept:
    """The media types that a client accepts; at least one is true."""

    json: bool
    event_stream: bool


def read_field(headers: Headers, name: str) -> str | HeaderFault | None:
    """Return the value of a field that may be sent once, in visible ASCII, or `None`."""
    values = headers.values(name)
    if len(values) > 1:
        return HeaderFault(f"The header {name} was sent more than once.")
    value = values[0] if values else None
    if value is not None and not _PLAIN.fullmatch(value):
        return HeaderFault(f"The header {name} must be visible ASCII; send other text as =?base64?…?=.")
    return value


def read_encoded_field(headers: Headers, name: str) -> str | HeaderFault | None:
    """Read a field that may be wrapped in the Base64 sentinel, and decode it.

    The wrapper must match exactly. A value that only begins or only ends like it is taken literally
    ("Value Encoding").
    """
    value = read_field(headers, name)
    if not isinstance(value, str) or not (wrapped := _SENTINEL.fullmatch(value)):
        return value
    fault = HeaderFault(f"The header {name} must hold padded Base64 of UTF-8 text between =?base64? and ?=.")
    try:
        decoded = base64.b64decode(wrapped[1], validate=True)
        text = decoded.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return fault
    # Each text has exactly one encoding. With spare bits or padding, two readers could disagree.
    return text if base64.b64encode(decoded).decode("ascii") == wrapped[1] else fault


def mismatch(reason: str, request_id: RequestId) -> Rejection:
    """Reject a request whose headers do not match: -32020, 400."""
    return refuse(HEADER_MISMATCH, reason, request_id)


def check_method_headers(headers: Headers, request: RequestMessage) -> Rejection | None:
    """Check `Mcp-Method`, and `Mcp-Name` for the methods that need it.

    If neither the body nor a header has a usable name, the request passes: its method reports the
    fault.
    """
    refusal = _compare_field(METHOD_HEADER, read_field(headers, METHOD_HEADER), request.method, request.request_id)
    source = NAME_SOURCES.get(request.method)
    if refusal is not None or source is None:
        return refusal
    header = read_encoded_field(headers, NAME_HEADER)
    name = request.params.get(source)
    if header is None and not isinstance(name, str):
        return None
    return _compare_field(NAME_HEADER, header, name, request.request_id)


def _compare_field(
    name: str, header: str | HeaderFault | None, expected: object, request_id: RequestId
) -> Rejection | None:
    if isinstance(header, HeaderFault):
        return mismatch(header.reason, request_id)
    if header is None:
        return mismatch(f"The header {name} is missing.", request_id)
    if header != expected:
        return mismatch(f"The header {name} does not match the body: {clip(header)!r}.", request_id)
    return None


def check_param_headers(
    headers: Headers,
    header_params: Mapping[str, tuple[str, ...]],
    arguments: Mapping[str, Any],
    request_id: RequestId,
) -> Rejection | None:
    """Check the `Mcp-Param-*` fields of a `tools/call`.

    Fields that the tool does not declare are ignored.

    `header_params` maps each `x-mcp-header` name of the tool to the path of its parameter, as a
    chain of `properties` keys. Source: streamable-http, "Server Behavior for Custom Headers".
    """
    for suffix, path in header_params.items():
        name = PARAM_HEADER_PREFIX + suffix
        header = read_encoded_field(headers, name)
        if isinstance(header, HeaderFault):
            return mismatch(header.reason, request_id)
        if not _is_mirrored(header, _argument_at(arguments, path)):
            state = "is missing for" if header is None else "does not match"
            return mismatch(f"The header {name} {state} the argument {'.'.join(path)}; see tools/list.", request_id)
    return None


def _argument_at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def _is_mirrored(header: str | None, value: Any) -> bool:
    # No header can carry an object or array. The argument check rejects those with a message for
    # the model.
    if header is None or value is None or isinstance(value, (dict, list)):
        return header is None and (value is None or isinstance(value, (dict, list)))
    if isinstance(value, bool):
        return header == ("true" if value else "false")
    if isinstance(value, str):
        return header == value
    return _equal_numbers(header, value)


def _equal_numbers(header: str, value: float) -> bool:
    if not _JSON_NUMBER.fullmatch(header):
        return False
    if isinstance(value, float):
        return float(header) == value
    try:
        return Decimal(header) == value
    except InvalidOperation:
        return False


def negotiate(headers: Headers, method: str, request_id: RequestId | None) -> Accept | Rejection:
    """Read the Accept field of a request.

    `subscriptions/listen` can only be answered by an event stream.
    """
    accept = _read_accept(",".join(headers.values("Accept")))
    if method == "subscriptions/listen" and not accept.event_stream:
        return refuse(NOT_ACCEPTABLE, f"{method} needs Accept: {EVENT_STREAM}.", request_id)
    if not accept.json and not accept.event_stream:
        return refuse(NOT_ACCEPTABLE, f"Send Accept: {JSON}, {EVENT_STREAM}.", request_id)
    return accept


def check_content_type(headers: Headers) -> Rejection | None:
    """Check that the body is plain JSON in UTF-8.

    A web page could post any other type without a preflight.
    """
    if not _is_json(headers.value("Content-Type") or ""):
        return refuse(UNSUPPORTED_MEDIA_TYPE, f"Send Content-Type: {JSON}, in UTF-8.")
    if any(encoding.lower() != "identity" for encoding in headers.values("Content-Encoding")):
        return refuse(UNSUPPORTED_MEDIA_TYPE, "Send the body without a Content-Encoding.")
    return None


@lru_cache(CACHED_VALUES)
def _is_json(content_type: str) -> bool:
    media_type, *parameters = content_type.split(";")
    charset_ok = all(
        _CHARSET.fullmatch(value.strip())
        for name, _, value in (parameter.partition("=") for parameter in parameters)
        if name.strip().lower() == "charset"
    )
    return media_type.strip().lower() == JSON and charset_ok


@lru_cache(CACHED_VALUES)
def _read_accept(text: str) -> Accept:
    ranges = _media_ranges(text)
    return Accept(json=_accepts(ranges, JSON), event_stream=_accepts(ranges, EVENT_STREAM))


def _media_ranges(text: str) -> dict[str, bool]:
    """Return whether each media range is accepted.

    Only `q=0` rejects one; other preferences are ignored.
    """
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
    """Return whether a media type is accepted.

    The most specific range decides (RFC 9110, section 12.5.1).
    """
    candidates = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((ranges[candidate] for candidate in candidates if candidate in ranges), False)
