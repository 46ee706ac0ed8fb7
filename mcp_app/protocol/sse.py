"""Encode JSON-RPC messages as server-sent events, one message in each event.

Only the streams of the legacy era have event ids. With an id, a client that lost its connection
asks for the rest of the stream. An id names the stream and a place in it. For a call these are its
request and the number of an event row; for a session's GET stream, a number.

Source: 2026-07-28 streamable-http "Receiving Messages"; 2025-11-25 basic/transports "Resumability
and Redelivery"; the HTML standard, "Server-sent events".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from mcp_app.protocol.errors import HTTPFields
from mcp_app.protocol.jsonrpc import encode

RESPONSE_HEADERS: Final[HTTPFields] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""Header fields of every event stream. They keep proxies from buffering or rewriting it."""
KEEP_ALIVE: Final = b":\n\n"
"""A comment that keeps idle connections open and detects some dead clients."""
MAX_SEQ: Final = 2**63 - 1
_ID: Final = re.compile(r"(?P<stream>[0-9a-f]{32}|listen)\.(?P<seq>[0-9]{1,19})")


@dataclass(frozen=True)
class EventId:
    """A place in one stream of one session."""

    request: UUID | None
    """`None` for the session's GET stream."""
    seq: int

    def __str__(self) -> str:
        return f"{'listen' if self.request is None else self.request.hex}.{self.seq}"


def event(message: Mapping[str, Any], event_id: EventId | None = None) -> bytes:
    """Encode one JSON-RPC message as an event.

    JSON escapes line breaks, so the data is a single line.
    """
    named = b"" if event_id is None else f"id: {event_id}\n".encode()
    return named + b"event: message\ndata: " + encode(message) + b"\n\n"


def prime(event_id: EventId, retry_ms: int) -> bytes:
    """Encode an event without a message.

    It makes the stream resumable after `retry_ms` milliseconds.
    """
    return f"id: {event_id}\nretry: {retry_ms}\ndata: \n\n".encode()


def retry(retry_ms: int) -> bytes:
    """Encode a request to reconnect after `retry_ms` milliseconds.

    It is sent before a stream is cut.
    """
    return f"retry: {retry_ms}\n\n".encode()


def read_event_id(text: str) -> EventId | None:
    """Parse `Last-Event-ID`. Return `None` if this server did not send that id."""
    found = _ID.fullmatch(text)
    if found is None or int(found["seq"]) > MAX_SEQ:
        return None
    return EventId(None if found["stream"] == "listen" else UUID(found["stream"]), int(found["seq"]))
