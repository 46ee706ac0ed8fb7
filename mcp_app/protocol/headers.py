"""HTTP request fields: reading them, and holding the request metadata headers against the body.

Refuses to trust a header: a field that is missing, doubled, malformed or different from the body is -32020.
Source: 2026-07-28 basic/transports/streamable-http, "Request Metadata".
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

from mcp_app.protocol.errors import HEADER_MISMATCH, Rejection, RequestId, clip, refuse
from mcp_app.protocol.jsonrpc import Request

PROTOCOL_VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"

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
"""Methods that need `Mcp-Name`, and the member of `params` it mirrors."""

_PLAIN: Final = re.compile(r"[\t\x20-\x7e]*")
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=")


class Headers:
    """Request fields from ASGI's `(name, value)` byte pairs: names in any case, outer whitespace removed."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in raw:
            self._fields.setdefault(_key(name), []).append(value.decode("latin-1").strip(" \t"))

    def values(self, name: str) -> tuple[str, ...]:
        """Every value sent under `name`, in order; empty when there is none."""
        return tuple(self._fields.get(name.lower(), ()))

    def value(self, name: str) -> str | None:
        """The value of a field sent exactly once; None when absent, and when `doubled`."""
        values = self._fields.get(name.lower())
        return values[0] if values is not None and len(values) == 1 else None

    def doubled(self, name: str) -> bool:
        return len(self._fields.get(name.lower(), ())) > 1


@lru_cache(256)
def _key(name: bytes) -> str:
    """Made once for the names that clients send again and again."""
    return name.decode("latin-1").lower()


@dataclass(frozen=True)
class HeaderFault:
    """Why a field cannot be read."""

    reason: str


def read_field(headers: Headers, name: str) -> str | HeaderFault | None:
    """The value of a field that may be sent once, in visible ASCII; None when absent."""
    if headers.doubled(name):
        return HeaderFault(f"The header {name} was sent more than once.")
    value = headers.value(name)
    if value is not None and not _PLAIN.fullmatch(value):
        return HeaderFault(f"The header {name} must be visible ASCII; send other text as =?base64?…?=.")
    return value


def read_encoded_field(headers: Headers, name: str) -> str | HeaderFault | None:
    """As `read_field`, for fields that permit the Base64 sentinel; decoded once.

    The wrapper is exact: a value that only begins or only ends like it is a literal ("Value Encoding").
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
    # One text, one encoding: spare bits and spare padding would let two readers of a header disagree.
    return text if base64.b64encode(decoded).decode("ascii") == wrapped[1] else fault


def mismatch(reason: str, request_id: RequestId) -> Rejection:
    """-32020, 400."""
    return refuse(HEADER_MISMATCH, reason, request_id)


def check_version_header(header: str | None, declared: object, request_id: RequestId) -> Rejection | None:
    """A modern request needs the header, equal to the version declared in `_meta` where that is a string."""
    if header is None:
        return mismatch(f"The header {PROTOCOL_VERSION} is missing.", request_id)
    if isinstance(declared, str) and declared != header:
        return mismatch(
            f"The header {PROTOCOL_VERSION} says {clip(header)!r}, the body {clip(declared)!r}.", request_id
        )
    return None


def check_method_header(headers: Headers, request: Request) -> Rejection | None:
    header = read_field(headers, METHOD)
    return _compare(METHOD, header, request.method, request.request_id)


def check_name_header(headers: Headers, request: Request) -> Rejection | None:
    """Check `Mcp-Name` on the methods that need it.

    A body without a usable name is left to the method, which can say what is wrong with it, unless a header
    claims one.
    """
    source = NAME_SOURCES.get(request.method)
    if source is None:
        return None
    header = read_encoded_field(headers, NAME)
    name = request.params.get(source)
    if header is None and not isinstance(name, str):
        return None
    return _compare(NAME, header, name, request.request_id)


def _compare(name: str, header: str | HeaderFault | None, expected: object, request_id: RequestId) -> Rejection | None:
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
    """Check every recognised `Mcp-Param-*` field of a `tools/call`; unrecognised ones are ignored.

    `header_params` maps each `x-mcp-header` name of the tool to the chain of `properties` keys of its
    parameter. Source: streamable-http, "Server Behavior for Custom Headers".
    """
    for suffix, path in header_params.items():
        name = PARAM_PREFIX + suffix
        header = read_encoded_field(headers, name)
        if isinstance(header, HeaderFault):
            return mismatch(header.reason, request_id)
        if not _mirrors(header, _argument_at(arguments, path)):
            state = "is missing" if header is None else "does not match"
            return mismatch(f"The header {name} {state} for the argument {'.'.join(path)}; see tools/list.", request_id)
    return None


def _argument_at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def _mirrors(header: str | None, value: Any) -> bool:
    # No header can carry an object or array: the argument check refuses those, with words for the model.
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
