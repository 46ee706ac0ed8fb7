"""What a modern request says about itself in `params._meta`; and the one key that is ours, in any era's.

Refuses a request whose required fields are absent or mistyped, and optional ones that would steer an answer;
what is for display only (`clientInfo`) or for tracing is dropped when malformed. Source: 2026-07-28
basic/index "_meta".
"""

from dataclasses import dataclass
from typing import Any, Final, get_args

from mcp_types import ClientCapabilities, LoggingLevel

from mcp_app.protocol import bounded
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, RequestId, refuse
from mcp_app.protocol.jsonrpc import Limits, Request, is_identifier
from mcp_app.protocol.tracing import read_trace_context

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
TIME_LIMIT: Final = "org.pypi.django-mcp-app/timeLimitMs"
"""How long a `tools/call` may wait for a worker and run, in milliseconds, where that is less than the tool may anyway.
The prefix is the reversed name of this distribution's home, as the specification wants of keys that are not its own."""
MAX_TIME_LIMIT_MS: Final = 2**53 - 1
"""Beyond it JSON's numbers are not the same to everybody."""
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - the name of a member

LOG_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
"""The levels of RFC 5424 that a request may ask for, in the order of the schema."""


@dataclass(frozen=True)
class RequestMetadata:
    """The validated `_meta` of one request; nothing in it outlives the request."""

    protocol_version: str
    client_capabilities: dict[str, Any]
    client_info: dict[str, Any] | None
    """Self-reported; for display and log only."""
    log_level: str | None
    """None: the client wants no log messages."""
    progress_token: RequestId | None
    """None: the client wants no progress. 0 and "" are tokens: compare with `is None`."""
    trace_context: dict[str, str]
    time_limit_ms: int | None = None
    """None: the caller sets no limit of its own."""


def raw_metadata(request: Request) -> dict[str, Any]:
    """`params._meta` as sent; empty when it is absent or no object."""
    meta = request.params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def read_metadata(request: Request, limits: Limits) -> RequestMetadata | Rejection:
    """Validate `_meta`: -32602, 400 for what is missing or mistyped."""
    meta = raw_metadata(request)
    if (fault := _fault(meta, limits)) is not None:
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


def own_fault(meta: dict[str, Any]) -> str | None:
    """What is wrong with our own key, as a sentence."""
    limit = meta.get(TIME_LIMIT, 1)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= MAX_TIME_LIMIT_MS:
        return f"{TIME_LIMIT} must be a whole number of milliseconds above 0."
    return None


def _fault(meta: dict[str, Any], limits: Limits) -> str | None:
    if not isinstance(meta.get(PROTOCOL_VERSION), str):
        return f"params._meta must hold {PROTOCOL_VERSION}, a string."
    if not _are_capabilities(meta.get(CLIENT_CAPABILITIES)):
        return f"params._meta must hold {CLIENT_CAPABILITIES}, an object."
    if LOG_LEVEL in meta and meta[LOG_LEVEL] not in LOG_LEVELS:
        return f"{LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}."
    if PROGRESS_TOKEN in meta and not is_identifier(meta[PROGRESS_TOKEN], limits):
        return f"progressToken must be a string or an integer of at most {limits.max_id_chars} characters."
    return own_fault(meta)


def _are_capabilities(value: object) -> bool:
    return isinstance(value, dict) and bounded.parse(ClientCapabilities, value) is not None


def _client_info(value: object) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    return value if all(isinstance(value.get(key), str) for key in ("name", "version")) else None
