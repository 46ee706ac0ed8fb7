"""Read the message that a legacy client sent, or several messages in the revision that has batches.

The transport finds the session that the header names. The revision of a session overrides the
assumed one. Source: 2025-11-25 and earlier, basic/transports "Sending Messages to the Server",
"Session Management"; 2025-03-26 basic/index "Batching".
"""

from dataclasses import dataclass
from typing import Final

from mcp_app.protocol.errors import INVALID_REQUEST, NOT_ACCEPTABLE, Rejection, refuse
from mcp_app.protocol.headers import PROTOCOL_VERSION_HEADER, Accept, HeaderFault, Headers, negotiate, read_field
from mcp_app.protocol.jsonrpc import (
    ClientResponse,
    Decoded,
    Limits,
    Notification,
    RequestMessage,
    read_message,
    read_response,
)
from mcp_app.protocol.revisions import ASSUMED_LEGACY, LEGACY, SUPPORTED_VERSIONS, Revision

SESSION: Final = "Mcp-Session-Id"
LAST_EVENT: Final = "Last-Event-ID"
MAX_BATCH: Final = 100
"""Messages in one POST or line."""

Message = RequestMessage | Notification | ClientResponse | Rejection
"""One of the messages, or the rejection of one that cannot be read."""


@dataclass(frozen=True)
class LegacyMessages:
    """The messages of one POST or line."""

    messages: tuple[Message, ...]
    is_batch: bool


@dataclass(frozen=True)
class LegacyPost(LegacyMessages):
    """The messages of one POST, with its headers as far as they matter."""

    header_revision: Revision | None
    """The revision that the header names."""
    accept: Accept

    def choose_revision(self, negotiated: str | None) -> Revision:
        """Return the session's revision, or else the one in the header, or else the assumed one."""
        return LEGACY[negotiated] if negotiated else self.header_revision or LEGACY[ASSUMED_LEGACY]


def read_post(
    headers: Headers, decoded: Decoded, header_revision: str | None, limits: Limits
) -> LegacyPost | Rejection:
    """Read the messages of a body.

    `header_revision` is the name of a legacy revision, or `None` without the header.
    """
    sent = read_messages(decoded, limits)
    if isinstance(sent, Rejection):
        return sent
    accept = _negotiate(headers, sent.messages)
    if isinstance(accept, Rejection):
        return accept
    return LegacyPost(sent.messages, sent.is_batch, LEGACY[header_revision] if header_revision else None, accept)


def read_messages(decoded: Decoded, limits: Limits) -> LegacyMessages | Rejection:
    """Read the messages of one POST or line.

    An array that is empty or too long is -32600, as is a single message that is invalid.
    """
    is_batch = isinstance(decoded.value, list)
    if is_batch and not 0 < len(decoded.value) <= MAX_BATCH:
        return refuse(INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages.")
    members = decoded.value if is_batch else [decoded.value]
    messages = tuple(_read_message(Decoded(member, decoded.text), limits) for member in members)
    if not is_batch and isinstance(messages[0], Rejection):
        return messages[0]
    return LegacyMessages(messages, is_batch)


def check_batch(sent: LegacyMessages, revision: Revision) -> Rejection | None:
    """Check whether `revision` allows this batch.

    Only one revision has batches, and `initialize` must be sent alone.
    """
    if not sent.is_batch:
        return None
    if not revision.batches:
        return refuse(INVALID_REQUEST, f"MCP {revision.name} has no batches; send each message by itself.")
    if any(isinstance(message, RequestMessage) and message.method == "initialize" for message in sent.messages):
        return refuse(INVALID_REQUEST, "A batch cannot hold initialize; send it by itself.")
    return None


def is_legacy_connection(headers: Headers) -> bool:
    """Return whether a GET or DELETE belongs to a session. The modern era has neither method."""
    version = headers.value(PROTOCOL_VERSION_HEADER)
    return bool(headers.values(SESSION)) and (version is None or version in LEGACY)


def check_session_version(headers: Headers) -> Rejection | None:
    """Reject a request that names a session and an unknown version.

    The status is 400 ("Protocol Version Header").
    """
    version = read_field(headers, PROTOCOL_VERSION_HEADER)
    if not headers.values(SESSION) or version is None:
        return None
    if isinstance(version, HeaderFault):
        return refuse(INVALID_REQUEST, version.reason)
    if version in LEGACY or version in SUPPORTED_VERSIONS:
        return None
    return refuse(
        INVALID_REQUEST, f"The header {PROTOCOL_VERSION_HEADER} does not name a version that this server supports."
    )


def check_accepts_events(headers: Headers) -> Rejection | None:
    """Reject a GET that does not accept an event stream."""
    accept = negotiate(headers, "GET", None)
    if isinstance(accept, Rejection) or not accept.event_stream:
        return refuse(NOT_ACCEPTABLE, "A GET opens an event stream: send Accept: text/event-stream.")
    return None


def _read_message(decoded: Decoded, limits: Limits) -> Message:
    if (answer := read_response(decoded, limits)) is not None:
        return answer
    return read_message(decoded, limits)


def _negotiate(headers: Headers, messages: tuple[Message, ...]) -> Accept | Rejection:
    """Negotiate the media type for the first message that gets a response."""
    answered = next((message for message in messages if isinstance(message, RequestMessage | Rejection)), None)
    if answered is None:
        return Accept(json=True, event_stream=True)
    return negotiate(headers, answered.method if isinstance(answered, RequestMessage) else "", answered.request_id)
