"""Server-sent events of the legacy era: with ids, by which a client that was cut off asks for the rest.

An id names its stream and the place in it: of a call, its request and the number of an event row; of the
session's own GET stream, a number. Source: 2025-11-25 basic/transports "Resumability and Redelivery".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from mcp_app.protocol.jsonrpc import encode

MAX_SEQ: Final = 2**63 - 1
_ID: Final = re.compile(r"(?P<stream>[0-9a-f]{32}|listen)\.(?P<seq>[0-9]{1,19})")


@dataclass(frozen=True)
class EventId:
    """A place in one stream of one session."""

    request: UUID | None
    """None: the session's GET stream."""
    seq: int

    def __str__(self) -> str:
        return f"{'listen' if self.request is None else self.request.hex}.{self.seq}"


def read_event_id(text: str) -> EventId | None:
    """The place that `Last-Event-ID` names; None for what is no event id of ours."""
    found = _ID.fullmatch(text)
    if found is None or int(found["seq"]) > MAX_SEQ:
        return None
    return EventId(None if found["stream"] == "listen" else UUID(found["stream"]), int(found["seq"]))


def event(message: Mapping[str, Any], event_id: EventId) -> bytes:
    """One JSON-RPC message as an event that can be resumed from."""
    return f"id: {event_id}\nevent: message\ndata: ".encode() + encode(message) + b"\n\n"


def prime(event_id: EventId, retry_ms: int) -> bytes:
    """An event without a message: from now on the stream can be resumed, after `retry_ms` milliseconds."""
    return f"id: {event_id}\nretry: {retry_ms}\ndata: \n\n".encode()


def retry(retry_ms: int) -> bytes:
    """Asks the client to come back after `retry_ms` milliseconds; sent before a stream is cut."""
    return f"retry: {retry_ms}\n\n".encode()
