"""One JSON-RPC message: strict bytes to a value, and a value to bytes.

Refuses what Python's `json` lets through (NaN, duplicate keys, unbounded depth and digits, lone surrogates);
batches and responses, where the caller does not read them itself (`legacy_inbound`). Nothing here
raises on input. Source: 2026-07-28 basic/index "Messages", streamable-http "Sending Messages".
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, TypeGuard

from mcp_app.protocol.errors import INVALID_REQUEST, PARSE_ERROR, Rejection, RequestId, refuse

MAX_INTEGER_DIGITS: Final = 4300


@dataclass(frozen=True)
class Limits:
    """What one message may hold. Its size in bytes is the transport's to bound, while it arrives."""

    max_depth: int = 64
    """Arrays and objects inside one another."""
    max_id_chars: int = 256
    """Characters of a request id or progress token."""


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class Request:
    """A message that expects a response."""

    request_id: RequestId
    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Notification:
    """A message that expects none."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """A response to a request of the server's; posted in legacy revisions only."""

    request_id: RequestId | None
    """None: an error that says of no request what was wrong."""
    message: dict[str, Any]
    """As sent: it has a `result` or an `error`."""


@dataclass(frozen=True)
class Decoded:
    """A body that is strict JSON, and the text it came from."""

    value: Any
    text: str


def parse_message(body: bytes, limits: Limits = DEFAULT_LIMITS) -> Request | Notification | Rejection:
    """Read one body. Faults of syntax, encoding or depth are -32700, faults of the message -32600."""
    decoded = decode(body, limits)
    return decoded if isinstance(decoded, Rejection) else read_message(decoded, limits)


def decode(body: bytes, limits: Limits = DEFAULT_LIMITS) -> Decoded | Rejection:
    """Read the JSON of one body, whatever it says: -32700 for faults of syntax, encoding or depth."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return refuse(PARSE_ERROR, "The body must be JSON in UTF-8.")
    if _depth_exceeds(text, limits.max_depth):
        return refuse(PARSE_ERROR, f"The JSON may be nested at most {limits.max_depth} levels deep.")
    try:
        return Decoded(_DECODER.decode(text), text)
    except (ValueError, RecursionError):
        return refuse(PARSE_ERROR, "The body must be one JSON value without duplicate keys or non-finite numbers.")


def read_message(decoded: Decoded, limits: Limits) -> Request | Notification | Rejection:
    """Read one request or notification; everything else is -32600."""
    message = decoded.value
    if isinstance(message, list):
        return refuse(INVALID_REQUEST, "Batches are not served; send each message by itself.")
    if not isinstance(message, dict):
        return refuse(INVALID_REQUEST, "The body must be a JSON-RPC object.")
    return _read_message(message, decoded.text, limits)


def read_answer(decoded: Decoded, limits: Limits) -> Answer | Rejection | None:
    """Read a response; None for what is none, -32600 for one that answers nothing that could be open."""
    message = decoded.value
    if not isinstance(message, dict) or "method" in message or not ("result" in message or "error" in message):
        return None
    request_id = message.get("id")
    is_known = is_identifier(request_id, limits) or (request_id is None and "error" in message)
    if message.get("jsonrpc") != "2.0" or not is_known:
        return refuse(INVALID_REQUEST, 'A response needs the id of its request and the member jsonrpc, "2.0".')
    return Answer(request_id, message)


def _read_message(message: dict[str, Any], text: str, limits: Limits) -> Request | Notification | Rejection:
    request_id = message.get("id")
    if not is_identifier(request_id, limits):
        request_id = None
    if (fault := _message_fault(message, text, limits)) is not None:
        return refuse(INVALID_REQUEST, fault, request_id)
    params = message.get("params", {})
    if request_id is None:
        return Notification(message["method"], params)
    return Request(request_id, message["method"], params)


def _message_fault(message: dict[str, Any], text: str, limits: Limits) -> str | None:
    if holds_forbidden_text(message, text):
        return "Strings may hold neither U+0000 nor lone surrogates."
    if message.get("jsonrpc") != "2.0":
        return 'The member jsonrpc must be "2.0".'
    if "result" in message or "error" in message:
        return "Responses are not accepted; send one request or notification."
    if "id" in message and not is_identifier(message["id"], limits):
        return f"The id must be a string or an integer of at most {limits.max_id_chars} characters."
    if not isinstance(message.get("method"), str):
        return "The member method must be a string."
    if not isinstance(message.get("params", {}), dict):
        return "The member params must be an object."
    return None


def holds_forbidden_text(value: Any, text: str) -> bool:
    """Whether a string in a value decoded from `text` holds U+0000 or a lone surrogate."""
    return bool(_SUSPECT_ESCAPE.search(text)) and any(_FORBIDDEN.search(part) for part in _strings(value))


def is_identifier(value: object, limits: Limits) -> TypeGuard[RequestId]:
    """Whether `value` may be a request id or a progress token."""
    # `type` and not `isinstance`: a bool is an int.
    if type(value) is str:
        return len(value) <= limits.max_id_chars and not _FORBIDDEN.search(value)
    return type(value) is int and len(str(value)) <= limits.max_id_chars


class Encoded(dict[str, Any]):
    """A result that is sent many times: it is encoded once. Never change it."""

    __slots__ = ("text",)

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__(result)
        self.text: Final = encode(result)
        """As `encode` has it."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Write strict JSON on one line. Lone surrogates, which tools can produce, become U+FFFD.

    Raises ValueError for NaN and infinities and TypeError for what is no JSON value: both are the caller's
    mistake.
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


def response(request_id: RequestId, result: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_response(rejection: Rejection) -> dict[str, Any]:
    """The error of a rejection; without an `id` when it could not be read (the schema has no null id)."""
    error: dict[str, Any] = {"code": rejection.code, "message": rejection.message}
    if rejection.data is not None:
        error["data"] = rejection.data
    if rejection.request_id is None:
        return {"jsonrpc": "2.0", "error": error}
    return {"jsonrpc": "2.0", "id": rejection.request_id, "error": error}


def notification(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


_FORBIDDEN: Final = re.compile("[\x00\ud800-\udfff]")
# Strict JSON and UTF-8 leave an escape as the only way in, so most messages need no walk.
_SUSPECT_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
# The closing quote is optional so that an unterminated string ends the scan instead of restarting it at every
# quote.
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKET: Final = re.compile(r"[^\[\]{}]++")
_DEPTH_CHANGE: Final = {"[": 1, "{": 1, "]": -1, "}": -1}


def _depth_exceeds(text: str, max_depth: int) -> bool:
    """Measure nesting on the text: the decoder recurses, and fails at a depth that the caller's stack
    decides."""
    if text.count("[") + text.count("{") <= max_depth:
        return False
    brackets = _NOT_BRACKET.sub("", _STRING.sub("", text))
    return max(accumulate(map(_DEPTH_CHANGE.__getitem__, brackets)), default=0) > max_depth


def _strings(value: Any) -> Iterator[str]:
    """Every string in a decoded message, keys included."""
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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate key")
    return members


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError("number out of range")
    return number


def _bounded(literal: str) -> int:
    # Python's own limit can be lifted by the site, and without one the conversion is quadratic.
    if len(literal.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise ValueError("integer out of range")
    return int(literal)


def _refused_constant(literal: str) -> float:
    raise ValueError(f"{literal} is not JSON")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_int=_bounded, parse_constant=_refused_constant
)
