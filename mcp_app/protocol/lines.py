"""The ladder for a transport without headers: one line of stdio to a `Route`, `LegacyMessages` or `Rejection`.

The rungs are those of `inbound`, without those that hold headers against the body. Only a request says its era, by its
`_meta`; refuses to know whether a legacy session was begun. Values, not responses and not exceptions.
Source: 2026-07-28 basic/transports/stdio "Request Metadata", basic/versioning "Backward Compatibility".
"""

from typing import Final

from mcp_app.protocol.accept import Accept
from mcp_app.protocol.errors import Rejection, clip
from mcp_app.protocol.inbound import Route, declares_version, unsupported
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, Decoded, Limits, Request, decode, read_message
from mcp_app.protocol.legacy_inbound import LegacyMessages, read_messages
from mcp_app.protocol.metadata import PROTOCOL_VERSION, raw_metadata, read_metadata
from mcp_app.protocol.revisions import SUPPORTED_VERSIONS

ANYTHING: Final = Accept(json=True, event_stream=True)
"""What a client that has no headers takes."""


def classify_line(line: bytes, limits: Limits = DEFAULT_LIMITS) -> Route | LegacyMessages | Rejection:
    """Climb the ladder with one line: a modern request, or whatever declares no version. Never raises on input."""
    decoded = decode(line, limits)
    if isinstance(decoded, Rejection):
        return decoded
    if declares_version(decoded.value) and "id" in decoded.value:
        return _modern(decoded, limits)
    return read_messages(decoded, limits)


def _modern(decoded: Decoded, limits: Limits) -> Route | Rejection:
    message = read_message(decoded, limits)
    if isinstance(message, Rejection):
        return message
    assert isinstance(message, Request), "it has an id"
    declared = raw_metadata(message)[PROTOCOL_VERSION]
    if isinstance(declared, str) and declared not in SUPPORTED_VERSIONS:
        return unsupported(f"Protocol version {clip(declared)!r} is not supported.", declared, message.request_id)
    metadata = read_metadata(message, limits)
    if isinstance(metadata, Rejection):
        return metadata
    return Route(message.request_id, message.method, message.params, metadata, ANYTHING)
