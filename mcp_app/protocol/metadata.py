"""Read and validate `params._meta` of a request.

A request is rejected if a required field is missing or has the wrong type, or if an optional field
that affects the response has the wrong type. An optional field that is null counts as absent. A
malformed `clientInfo`, which is for display only, and a malformed trace context are dropped.

One key is this project's own, in every era: `TIME_LIMIT`.

Source: 2026-07-28 basic/index "_meta", "Error Codes" (-32021); client/elicitation "Capabilities".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from mcp_types import ClientCapabilities, LoggingLevel

from mcp_app.protocol import jsonrpc
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, RequestId, refuse
from mcp_app.protocol.jsonrpc import Limits, RequestMessage, is_identifier

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
TIME_LIMIT: Final = "org.pypi.django-mcp-app/timeLimitMs"
"""How long a `tools/call` may wait for a worker and run, in milliseconds, if that is less than the
tool's own limit. The prefix is this distribution's reversed home page, as the specification asks
of custom keys.
"""
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - the name of a member
LOG_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
"""The levels of RFC 5424 that a request may ask for, in the order of the schema."""
MAX_TIME_LIMIT_MS: Final = 2**53 - 1
"""Beyond this, JSON numbers are not exact in every implementation."""
MAX_STATE_MEMBERS: Final = 32
MAX_BAGGAGE_MEMBERS: Final = 64
MAX_VALUE_CHARS: Final = 8192
_TRACEPARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-[\x21-\x7e]*)?"
)
_STATE_KEY: Final = r"(?:[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}|[a-z][a-z0-9_\-*/]{0,255})"
_STATE_MEMBER: Final = re.compile(rf"{_STATE_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a grammar rule of RFC 9110
_BAGGAGE_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_BAGGAGE_PAIR: Final = re.compile(rf"{_TOKEN}[ \t]*=[ \t]*{_BAGGAGE_VALUE}")
_BAGGAGE_PROPERTY: Final = re.compile(rf"{_TOKEN}(?:[ \t]*=[ \t]*{_BAGGAGE_VALUE})?")


@dataclass(frozen=True)
class RequestMetadata:
    """The validated `_meta` of one request."""

    protocol_version: str
    client_capabilities: dict[str, Any]
    client_info: dict[str, Any] | None
    """Reported by the client itself; for display and log only."""
    log_level: str | None
    """`None` if the client wants no log messages."""
    progress_token: RequestId | None
    """`None` if the client wants no progress. 0 and "" are tokens, so compare with `is None`."""
    trace_context: dict[str, str]
    time_limit_ms: int | None = None
    """`None` if the caller sets no limit."""


def raw_metadata(request: RequestMessage) -> dict[str, Any]:
    """Return `params._meta` as sent, or an empty dictionary if it is missing or not an object."""
    meta = request.params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def read_metadata(request: RequestMessage, limits: Limits) -> RequestMetadata | Rejection:
    """Validate `_meta`. A field that is missing or has the wrong type is -32602, 400."""
    meta = raw_metadata(request)
    if (fault := _metadata_fault(meta, limits)) is not None:
        return refuse(INVALID_PARAMS, fault, request.request_id)
    return RequestMetadata(
        protocol_version=meta[PROTOCOL_VERSION],
        client_capabilities=meta[CLIENT_CAPABILITIES],
        client_info=_client_info(meta.get(CLIENT_INFO)),
        log_level=meta.get(LOG_LEVEL),
        progress_token=meta.get(PROGRESS_TOKEN),
        trace_context=read_trace_context(meta),
        time_limit_ms=meta.get(TIME_LIMIT),
    )


def progress_token_fault(meta: dict[str, Any], limits: Limits) -> str | None:
    """Return the error message for an invalid progress token, or `None`."""
    token = meta.get(PROGRESS_TOKEN)
    if token is None or is_identifier(token, limits):
        return None
    return f"progressToken must be a string or an integer of at most {limits.max_id_chars} characters."


def time_limit_fault(meta: dict[str, Any]) -> str | None:
    """Return the error message for an invalid `TIME_LIMIT`, or `None`."""
    limit = meta.get(TIME_LIMIT)
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= MAX_TIME_LIMIT_MS:
        return f"{TIME_LIMIT} must be a whole number of milliseconds above 0."
    return None


def _metadata_fault(meta: dict[str, Any], limits: Limits) -> str | None:
    if not isinstance(meta.get(PROTOCOL_VERSION), str):
        return f"params._meta must hold {PROTOCOL_VERSION}, a string."
    capabilities = meta.get(CLIENT_CAPABILITIES)
    if not isinstance(capabilities, dict) or jsonrpc.validate(ClientCapabilities, capabilities) is None:
        return f"params._meta must hold {CLIENT_CAPABILITIES}, an object."
    if meta.get(LOG_LEVEL) not in (None, *LOG_LEVELS):
        return f"{LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}."
    return progress_token_fault(meta, limits) or time_limit_fault(meta)


def _client_info(value: object) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    is_complete = isinstance(value.get("name"), str) and isinstance(value.get("version"), str)
    return value if is_complete else None


def has_capabilities(required: Mapping[str, Any], capabilities: Mapping[str, Any]) -> bool:
    """Return whether the client declares everything that `required` names.

    Both are ClientCapabilities objects. Null counts as absent, because some libraries write null
    for each capability that their client does not have.
    """
    elicitation = capabilities.get("elicitation")
    if elicitation is not None and not elicitation:
        capabilities = {**capabilities, "elicitation": {"form": {}}}
    return _holds(capabilities, required)


def _holds(capabilities: Mapping[str, Any], required: Mapping[str, Any]) -> bool:
    for name, wanted in required.items():
        own = capabilities.get(name)
        if own is None:
            return False
        if isinstance(wanted, Mapping) and not _holds(own if isinstance(own, Mapping) else {}, wanted):
            return False
    return True


def read_trace_context(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the well-formed ones of `traceparent`, `tracestate` and `baggage`.

    `tracestate` is only returned together with `traceparent`.
    """
    context: dict[str, str] = {}
    texts = {
        key: value
        for key in ("traceparent", "tracestate", "baggage")
        if isinstance(value := meta.get(key), str) and len(value) <= MAX_VALUE_CHARS
    }
    if not texts:
        return context
    if _is_traceparent(texts.get("traceparent", "")):
        context["traceparent"] = texts["traceparent"]
        if _is_tracestate(texts.get("tracestate", "")):
            context["tracestate"] = texts["tracestate"]
    if _is_baggage(texts.get("baggage", "")):
        context["baggage"] = texts["baggage"]
    return context


def _is_traceparent(text: str) -> bool:
    found = _TRACEPARENT.fullmatch(text)
    return found is not None and not (found["version"] == "00" and found["more"])


def _is_tracestate(text: str) -> bool:
    members = [member.strip(" \t") for member in text.split(",") if member.strip(" \t")]
    keys = {member.partition("=")[0] for member in members}
    return 0 < len(members) == len(keys) <= MAX_STATE_MEMBERS and all(map(_STATE_MEMBER.fullmatch, members))


def _is_baggage(text: str) -> bool:
    members = text.split(",")
    return len(members) <= MAX_BAGGAGE_MEMBERS and all(map(_is_baggage_member, members))


def _is_baggage_member(text: str) -> bool:
    pair, *properties = (part.strip(" \t") for part in text.split(";"))
    return _BAGGAGE_PAIR.fullmatch(pair) is not None and all(map(_BAGGAGE_PROPERTY.fullmatch, properties))
