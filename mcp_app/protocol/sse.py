"""Server-sent events of the modern era: one message an event, no `id:` or `retry:` (streams cannot be
resumed).

Source: 2026-07-28 streamable-http "Receiving Messages"; the HTML standard, "Server-sent events".
"""

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.protocol.errors import HTTPFields
from mcp_app.protocol.jsonrpc import encode

RESPONSE_HEADERS: Final[HTTPFields] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""On every event stream: proxies neither buffer it nor rewrite it."""

KEEP_ALIVE: Final = b":\n\n"
"""A comment: it keeps idle connections open and detects some dead clients."""


def event(message: Mapping[str, Any]) -> bytes:
    """One JSON-RPC message as an event. JSON escapes line breaks, so that the data is a single line."""
    return b"event: message\ndata: " + encode(message) + b"\n\n"
