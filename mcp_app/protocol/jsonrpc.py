"""Decode one JSON-RPC message from bytes, and encode one to bytes.

Decoding is stricter than Python's `json`. It rejects NaN, duplicate keys, lone surrogates, and
messages that are nested too deeply or hold too many digits or values. It also rejects batches and
responses, unless the caller reads them itself, as `legacy.inbound` does. Nothing here raises on
input: faults are returned as a `Rejection`.

Source: 2026-07-28 basic/index "Messages", streamable-http "Sending Messages".
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard, TypeVar

from pydantic import BaseModel, ValidationError

from mcp_app.protocol.errors import INVALID_REQUEST, PARSE_ERROR, Rejection, RequestId, refuse

MAX_INTEGER_DIGITS: Final = 1_000
"""Converting an integer to text takes time quadratic in its digits, and blocks all other threads.
"""
MAX_VALUES: Final = 60_000
"""Values in one message. Decoding and encoding block all other threads; 60,000 values take about 30
ms.
"""
MAX_PARAM_VALUES: Final = 10_000
"""Values in one member that is validated against a model."""
M = TypeVar("M", bound=BaseModel)
_FORBIDDEN: Final = re.compile("[\x00\ud800-\udfff]")
# In strict JSON and UTF-8 these characters can only be escapes, so most messages need no search.
_SUSPECT_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
# The closing quote is optional. Otherwise an unterminated string would restart the scan at every
# quote.
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STRUCTURE: Final = re.compile(rf"{_STRING.pattern}|[\[\]{{}},]", re.DOTALL)
_DEPTH_CHANGE: Final = {"[": 1, "{": 1, "]": -1, "}": -1}


@dataclass(frozen=True)
class Limits:
    """What one message may hold. The transport limits its size in bytes while it arrives."""

    max_depth: int = 64
    """Nesting of arrays and objects."""
    max_values: int = MAX_VALUES
    """Array items, object members, arrays and objects together."""
    max_id_chars: int = 256
    """Characters of a request id or progress token."""


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class RequestMessage:
    """A message that expects a response."""

    request_id: RequestId
    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Notification:
    """A message that expects no response."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientResponse:
    """A response to a request that the server sent. Only clients of legacy revisions send one."""

    request_id: RequestId | None
    """`None` in an error response that belongs to no request."""
    message: dict[str, Any]
    """The message as sent, with a `result` or an `error`."""


@dataclass(frozen=True)
class Decoded:
    """A value decoded from strict JSON, with the text that it came from."""

    value: Any
    text: str


def parse_message(body: bytes, limits: Limits = DEFAULT_LIMITS) -> RequestMessage | Notification | Rejection:
    """Decode and read one message.

    Faults of syntax, encoding or depth are -32700; faults of the message are -32600.
    """
    decoded = decode(body, limits)
    return decoded if isinstance(decoded, Rejection) else read_message(decoded, limits)


def decode(body: bytes, limits: Limits = DEFAULT_LIMITS) -> Decoded | Rejection:
    """Decode the JSON of one body. Faults of syntax, encoding or depth are -32700."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return refuse(PARSE_ERROR, "The body must be JSON in UTF-8.")
    if (fault := _size_fault(text, limits)) is not None:
        return refuse(PARSE_ERROR, fault)
    try:
        return Decoded(_DECODER.decode(text), text)
    except (ValueError, RecursionError):
        return refuse(PARSE_ERROR, "The body must be one JSON value without duplicate keys or non-finite numbers.")


def read_message(decoded: Decoded, limits: Limits) -> RequestMessage | Notification | Rejection:
    """Read one request or notification. Anything else is -32600."""
    message = decoded.value
    if isinstance(message, list):
        return refuse(INVALID_REQUEST, "Batches are not supported; send each message by itself.")
    if not isinstance(message, dict):
        return refuse(INVALID_REQUEST, "The body must be a JSON-RPC object.")
    request_id = message.get("id")
    if not is_identifier(request_id, limits):
        request_id = None
    if (fault := _message_fault(message, decoded.text, limits)) is not None:
        return refuse(INVALID_REQUEST, fault, request_id)
    params = {} if message.get("params") is None else message["params"]
    if request_id is None:
        return Notification(message["method"], params)
    return RequestMessage(request_id, message["method"], params)


def read_response(decoded: Decoded, limits: Limits) -> ClientResponse | Rejection | None:
    """Read a response.

    Return `None` if the message is not one, and -32600 if it has no usable id.
    """
    message = decoded.value
    if not isinstance(message, dict) or "method" in message or not ("result" in message or "error" in message):
        return None
    request_id = message.get("id")
    is_known = is_identifier(request_id, limits) or (request_id is None and "error" in message)
    if message.get("jsonrpc") != "2.0" or not is_known:
        return refuse(INVALID_REQUEST, 'A response needs the id of its request and the member jsonrpc, "2.0".')
    return ClientResponse(request_id, message)


def _message_fault(message: dict[str, Any], text: str, limits: Limits) -> str | None:
    if holds_forbidden_text(message, text):
        return "Strings must not contain U+0000 or lone surrogates."
    if message.get("jsonrpc") != "2.0":
        return 'The member jsonrpc must be "2.0".'
    if "result" in message or "error" in message:
        return "Responses are not accepted; send one request or notification."
    if "id" in message and not is_identifier(message["id"], limits):
        return f"The id must be a string or an integer of at most {limits.max_id_chars} characters."
    if not isinstance(message.get("method"), str):
        return "The member method must be a string."
    if not isinstance(message.get("params"), dict | None):
        return "The member params must be an object."
    return None


def is_identifier(value: object, limits: Limits) -> TypeGuard[RequestId]:
    """Return whether `value` may be a request id or a progress token."""
    # `type` and not `isinstance`: a bool is an int.
    if type(value) is str:
        return len(value) <= limits.max_id_chars and not _FORBIDDEN.search(value)
    return type(value) is int and len(str(value)) <= limits.max_id_chars


def holds_forbidden_text(value: Any, text: str) -> bool:
    """Return whether a string in a value decoded from `text` holds U+0000 or a lone surrogate."""
    return bool(_SUSPECT_ESCAPE.search(text)) and any(_FORBIDDEN.search(part) for part in _strings(value))


def _strings(value: Any) -> Iterator[str]:
    """Yield every string in a decoded message, including keys."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            yield from node
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def _size_fault(text: str, limits: Limits) -> str | None:
    """Return the error message if the JSON is nested too deeply or holds too many values.

    The text is measured before the decoder recurses and builds values. The loop is in Python, so
    that other threads can run meanwhile, and it stops as soon as a limit is exceeded.
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= limits.max_depth and brackets + text.count(",") <= limits.max_values:
        return None
    depth = values = 0
    for match in _STRUCTURE.finditer(text):
        token = match[0]
        if token in _DEPTH_CHANGE:
            depth += _DEPTH_CHANGE[token]
        if token in ("[", "{", ","):
            values += 1
        if depth > limits.max_depth:
            return f"The JSON may be nested at most {limits.max_depth} levels deep."
        if values > limits.max_values:
            return f"The JSON may contain at most {limits.max_values} values; send less at once."
    return None


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate key")
    return members


def _parse_float(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError("number out of range")
    return number


def _parse_int(literal: str) -> int:
    # Python's own limit can be lifted by the site, and without one the conversion is quadratic.
    if len(literal.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise ValueError("integer out of range")
    return int(literal)


def _refuse_constant(literal: str) -> float:
    raise ValueError(f"{literal} is not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique_members, parse_float=_parse_float, parse_int=_parse_int, parse_constant=_refuse_constant
)


def validate(model: type[M], value: Any, *, strict: bool | None = None) -> M | None:
    """Return `value` as an instance of `model`, or `None` if it does not fit."""
    if holds_more_than(value, MAX_PARAM_VALUES):
        return None
    try:
        return model.model_validate(value, strict=strict, by_name=False)
    except ValidationError:
        return None


def holds_more_than(value: Any, most: int) -> bool:
    """Return whether a JSON value holds more than `most` values, counting itself."""
    pending, found = [value], 0
    while pending:
        node = pending.pop()
        members = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        found += len(members)
        if found >= most:
            return True
        pending.extend(members)
    return False


class Encoded(dict[str, Any]):
    """A result that is sent many times and is encoded once. Never change it."""

    __slots__ = ("text",)

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__(result)
        self.text: Final = encode(result)
        """The encoded result."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Write strict JSON on one line. Lone surrogates, which tools can produce, become U+FFFD.

    Raises `ValueError` for NaN and infinities, and `TypeError` for a value that JSON cannot
    represent.
    """
    result = message.get("result")
    if isinstance(result, Encoded):
        others = _encode({name: value for name, value in message.items() if name != "result"})
        return b'%s,"result":%s}' % (others[:-1], result.text)
    return _encode(message)


def _encode(value: Mapping[str, Any]) -> bytes:
    text = _ENCODER.encode(value)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def response(request_id: RequestId, result: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_response(rejection: Rejection) -> dict[str, Any]:
    """Return the JSON-RPC error for a rejection.

    It has no `id` if the id could not be read, because the schema has no null id.
    """
    error: dict[str, Any] = {"code": rejection.code, "message": rejection.message}
    if rejection.data is not None:
        error["data"] = rejection.data
    if rejection.request_id is None:
        return {"jsonrpc": "2.0", "error": error}
    return {"jsonrpc": "2.0", "id": rejection.request_id, "error": error}


def notification(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}
