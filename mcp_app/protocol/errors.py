"""Error codes, the HTTP status of each, and `Rejection`, which describes a refused message.

The transport writes the response. Source: 2026-07-28 basic/index "Error Codes", streamable-http.
"""

import json
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
_JSON_RPC_CODES: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})
_RESERVED_CODES: Final = range(-32768, -31999)
# MCP has no codes for these refusals. Their HTTP status is the code, because it lies outside of
# JSON-RPC's reserved range.
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
"""A JSON-RPC id as the client sent it. 0 and "" are ids, and 1 is not "1". It is never a bool or
`None`.
"""
HTTPFields = tuple[tuple[bytes, bytes], ...]
"""Response header fields in the form that ASGI takes: names in lower case."""
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
"""The HTTP status by code, for a message that is refused before its method is entered."""
STATUS_IN_METHOD: Final[Mapping[int, int]] = MappingProxyType({METHOD_NOT_FOUND: 404, MISSING_CLIENT_CAPABILITY: 400})
"""The HTTP status by code once the method was entered. Every other code has status 200, because
clients of both eras take an unexpected 400 for a legacy server and fall back to `initialize`.
"""


def is_author_code(code: object) -> bool:
    """Return whether tool authors may send this code.

    These are JSON-RPC's own errors, and every code that is not reserved.
    """
    return type(code) is int and (code in _JSON_RPC_CODES or code not in _RESERVED_CODES)


@dataclass(frozen=True)
class Rejection:
    """A refused message.

    Build it with `refuse` (before the method) or `fail` (in the method), which set the status.
    """

    code: int
    message: str
    """One sentence with what to do about it. It contains no paths, queries or stack traces."""
    status: int
    request_id: RequestId | None = None
    """`None` if the id could not be read. The error then has no `id`."""
    data: Any = None
    """`None` if the error has no `data` member."""
    headers: HTTPFields = ()
    """More response fields, such as `allow` or `retry-after`."""
    bodiless: bool = False
    """Whether HTTP forbids a body, as it does in the response to HEAD."""


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
    """Reject a request that may succeed later.

    The status is 429 if the caller sends too much, and 503 if the server is busy.

    `retry_after` is in seconds. It is rounded up for the `Retry-After` field. The error's data
    repeats it for transports without headers and for members of a batch.
    """
    seconds = max(1, math.ceil(retry_after))
    fields = ((b"retry-after", b"%d" % seconds),)
    return refuse(code, message, request_id, data={"retryAfter": seconds}, headers=fields)


def method_not_found(method: str, request_id: RequestId) -> Rejection:
    """Reject a method that is unknown or whose capability is not advertised: -32601, 404."""
    return fail(METHOD_NOT_FOUND, f"Method not found: {clip(method)}.", request_id)


def missing_client_capability(required: Mapping[str, Any], request_id: RequestId) -> Rejection:
    """Reject a request that needs capabilities which its client did not declare: -32021, 400.

    `required` is a ClientCapabilities object, such as `{"sampling": {}}`.
    """
    return fail(
        MISSING_CLIENT_CAPABILITY,
        f"The client must declare these capabilities: {json.dumps(dict(required))}.",
        request_id,
        data={"requiredCapabilities": dict(required)},
    )


def unknown_tool_message(name: str) -> str:
    """Return the message (-32602) for a tool that does not exist or is hidden from the caller."""
    return f"Unknown tool: {clip(name)}."


def session_not_found(request_id: RequestId | None = None) -> Rejection:
    """Reject a session that is unknown, has ended or belongs to another caller.

    Clients begin a new session when they get a 404.
    """
    return refuse(NOT_FOUND, "Session not found; start a new one with initialize.", request_id)


def body_too_large(max_bytes: int) -> Rejection:
    """Reject a body of more than `max_bytes`, whether declared or counted: 413."""
    return refuse(CONTENT_TOO_LARGE, f"The request body may have at most {max_bytes} bytes.")


def clip(text: str, length: int = 80) -> str:
    """Shorten a text that a client sent, for use in a message."""
    return text if len(text) <= length else f"{text[:length]}…"
