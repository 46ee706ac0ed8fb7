"""The error codes, the HTTP status of each, and `Rejection`: the one value that says a message was refused.

Refuses to write a response: the transport does. Source: 2026-07-28 basic/index "Error Codes",
streamable-http.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

_JSON_RPC: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})
_RESERVED: Final = range(-32768, -31999)

# Refusals that MCP gives no code of its own carry their HTTP status as code: it lies outside JSON-RPC's
# reserved range.
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
METHOD_NOT_ALLOWED: Final = 405
NOT_ACCEPTABLE: Final = 406
CONTENT_TOO_LARGE: Final = 413
UNSUPPORTED_MEDIA_TYPE: Final = 415
TOO_MANY_REQUESTS: Final = 429
UNAVAILABLE: Final = 503

RequestId = str | int
"""A JSON-RPC id as the client sent it: 0 and "" are ids, 1 is not "1". Never a bool, never None."""

HTTPFields = tuple[tuple[bytes, bytes], ...]
"""Response header fields as ASGI takes them: lower-case names."""

STATUS_BEFORE_METHOD: Final[Mapping[int, int]] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        METHOD_NOT_FOUND: 404,
        INVALID_PARAMS: 400,
        INTERNAL_ERROR: 500,
        HEADER_MISMATCH: 400,
        MISSING_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_VERSION: 400,
        UNAUTHORIZED: 401,
        FORBIDDEN: 403,
        NOT_FOUND: 404,
        METHOD_NOT_ALLOWED: 405,
        NOT_ACCEPTABLE: 406,
        CONTENT_TOO_LARGE: 413,
        UNSUPPORTED_MEDIA_TYPE: 415,
        TOO_MANY_REQUESTS: 429,
        UNAVAILABLE: 503,
    }
)
"""HTTP status by code, for a message refused before its method was entered."""

STATUS_IN_METHOD: Final[Mapping[int, int]] = MappingProxyType({METHOD_NOT_FOUND: 404, MISSING_CLIENT_CAPABILITY: 400})
"""HTTP status by code once the method was entered; every other code is 200, because clients of
both eras take a stray 400 for a legacy server and fall back to `initialize`."""


def is_free(code: object) -> bool:
    """Whether an author may answer with this code: one of JSON-RPC's own errors, or one that nobody has reserved."""
    return type(code) is int and (code in _JSON_RPC or code not in _RESERVED)


@dataclass(frozen=True)
class Rejection:
    """A refused message. `refuse` (before the method) and `fail` (in the method) build it: they know the
    status."""

    code: int
    message: str
    """One sentence that tells the reader what to do; never internals."""
    status: int
    request_id: RequestId | None = None
    """None: the id could not be read, and is left out of the error."""
    data: Any = None
    """None: the error has no `data` member."""
    headers: HTTPFields = ()
    """Further response fields, such as `allow` or `retry-after`."""
    bodiless: bool = False
    """True where HTTP forbids a body (the answer to HEAD)."""


def refuse(
    code: int,
    message: str,
    request_id: RequestId | None = None,
    *,
    data: Any = None,
    headers: HTTPFields = (),
    bodiless: bool = False,
) -> Rejection:
    """Reject a message before its method is entered."""
    return Rejection(code, message, STATUS_BEFORE_METHOD[code], request_id, data, headers, bodiless)


def fail(code: int, message: str, request_id: RequestId, *, data: Any = None) -> Rejection:
    """Reject a request from within its method."""
    return Rejection(code, message, STATUS_IN_METHOD.get(code, 200), request_id, data)


def refuse_for_load(code: int, message: str, request_id: RequestId | None = None, *, retry_after: float) -> Rejection:
    """Refuse what may succeed later: 429 for the caller's own excess, 503 for the server's.

    `retry_after`: seconds. They go, as a whole number, into `Retry-After`, and into the error's data for transports
    that have no headers and for members of a batch.
    """
    seconds = max(1, math.ceil(retry_after))
    fields = ((b"retry-after", b"%d" % seconds),)
    return refuse(code, message, request_id, data={"retryAfter": seconds}, headers=fields)


def method_not_found(method: str, request_id: RequestId) -> Rejection:
    """The method is unknown, or stands behind a capability that is not advertised: -32601, 404."""
    return fail(METHOD_NOT_FOUND, f"Method not found: {clip(method)}.", request_id)


def missing_client_capability(required: Mapping[str, Any], request_id: RequestId) -> Rejection:
    """The request needs what its client did not declare: -32021, 400.

    `required` is a ClientCapabilities object, such as `{"sampling": {}}`.
    """
    return fail(
        MISSING_CLIENT_CAPABILITY,
        "The client must declare the capabilities listed in data.requiredCapabilities.",
        request_id,
        data={"requiredCapabilities": dict(required)},
    )


def unknown_tool(name: str) -> str:
    """What is said of a tool that there is not, or not for this caller (-32602)."""
    return f"Unknown tool: {clip(name)}."


def session_not_found(request_id: RequestId | None = None) -> Rejection:
    """The session is unknown, has ended or is another's: 404, by which clients know to begin a new one."""
    return refuse(NOT_FOUND, "Session not found; begin a new one with initialize.", request_id)


def body_too_large(max_bytes: int) -> Rejection:
    """The body exceeds `max_bytes`, declared or counted: 413."""
    return refuse(CONTENT_TOO_LARGE, f"The request body may hold at most {max_bytes} bytes.")


def clip(text: str, length: int = 80) -> str:
    """Shorten what a client sent for use in a message."""
    return text if len(text) <= length else f"{text[:length]}…"
