"""What a client of a legacy revision sent at once: one message, or several in the revision that has batches.

Refuses to know the session: what its header names is for the transport to look up, and a session's revision
wins over the assumed one. Source: 2025-11-25 and earlier, basic/transports "Sending Messages to the Server",
"Session Management"; 2025-03-26 basic/index "Batching".
"""

from dataclasses import dataclass
from typing import Final

from mcp_app.protocol.accept import Accept, negotiate
from mcp_app.protocol.errors import INVALID_REQUEST, NOT_ACCEPTABLE, Rejection, refuse
from mcp_app.protocol.headers import PROTOCOL_VERSION, HeaderFault, Headers, read_field
from mcp_app.protocol.jsonrpc import (
    Answer,
    Decoded,
    Limits,
    Notification,
    Request,
    read_answer,
    read_message,
)
from mcp_app.protocol.revisions import ASSUMED_LEGACY, LEGACY, SUPPORTED_VERSIONS, Revision

SESSION: Final = "Mcp-Session-Id"
LAST_EVENT: Final = "Last-Event-ID"
MAX_BATCH: Final = 100
"""Messages in one POST or line."""

Message = Request | Notification | Answer | Rejection
"""One of the messages; a Rejection where it cannot be read."""


@dataclass(frozen=True)
class LegacyMessages:
    """What was sent at once, and can be read."""

    messages: tuple[Message, ...]
    is_batch: bool


@dataclass(frozen=True)
class LegacyPost(LegacyMessages):
    """The same, over HTTP."""

    named: Revision | None
    """The revision that the header names."""
    accept: Accept

    def revision(self, negotiated: str | None) -> Revision:
        """The revision it is served in: the session's, else the one it names, else the assumed one."""
        return LEGACY[negotiated] if negotiated else self.named or LEGACY[ASSUMED_LEGACY]


def read_post(headers: Headers, decoded: Decoded, named: str | None, limits: Limits) -> LegacyPost | Rejection:
    """Read the messages of a body. `named` is the header's legacy revision, None without the header."""
    sent = read_messages(decoded, limits)
    if isinstance(sent, Rejection):
        return sent
    accept = _accept(headers, sent.messages)
    if isinstance(accept, Rejection):
        return accept
    return LegacyPost(sent.messages, sent.is_batch, LEGACY[named] if named else None, accept)


def read_messages(decoded: Decoded, limits: Limits) -> LegacyMessages | Rejection:
    """Read what was sent at once: -32600 for an array of none or too many, or one message that is none."""
    is_batch = isinstance(decoded.value, list)
    if is_batch and not 0 < len(decoded.value) <= MAX_BATCH:
        return refuse(INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages.")
    members = decoded.value if is_batch else [decoded.value]
    messages = tuple(_read(Decoded(member, decoded.text), limits) for member in members)
    if not is_batch and isinstance(messages[0], Rejection):
        return messages[0]
    return LegacyMessages(messages, is_batch)


def check_batch(sent: LegacyMessages, revision: Revision) -> Rejection | None:
    """Whether `revision` has this batch: `initialize` stands alone, and only one revision has batches at all."""
    if not sent.is_batch:
        return None
    if not revision.batches:
        return refuse(INVALID_REQUEST, f"MCP {revision.name} has no batches; send each message by itself.")
    if any(isinstance(message, Request) and message.method == "initialize" for message in sent.messages):
        return refuse(INVALID_REQUEST, "A batch cannot hold initialize; send it by itself.")
    return None


def is_legacy_connection(headers: Headers) -> bool:
    """Whether a GET or DELETE is one of a session: the modern era has neither."""
    version = headers.value(PROTOCOL_VERSION)
    return bool(headers.values(SESSION)) and (version is None or version in LEGACY)


def check_session_version(headers: Headers) -> Rejection | None:
    """What names a session names a version that is served, or none: 400 ("Protocol Version Header")."""
    version = read_field(headers, PROTOCOL_VERSION)
    if not headers.values(SESSION) or version is None:
        return None
    if isinstance(version, HeaderFault):
        return refuse(INVALID_REQUEST, version.reason)
    if version in LEGACY or version in SUPPORTED_VERSIONS:
        return None
    return refuse(INVALID_REQUEST, f"The header {PROTOCOL_VERSION} names no version that this server serves.")


def check_listens(headers: Headers) -> Rejection | None:
    """A GET opens an event stream, or nothing."""
    accept = negotiate(headers, "GET", None)
    if isinstance(accept, Rejection) or not accept.event_stream:
        return refuse(NOT_ACCEPTABLE, "A GET opens an event stream: send Accept: text/event-stream.")
    return None


def _read(decoded: Decoded, limits: Limits) -> Message:
    if (answer := read_answer(decoded, limits)) is not None:
        return answer
    return read_message(decoded, limits)


def _accept(headers: Headers, messages: tuple[Message, ...]) -> Accept | Rejection:
    """Only what is answered has an answer whose form matters: a request, and what cannot be read."""
    answered = next((message for message in messages if isinstance(message, Request | Rejection)), None)
    if answered is None:
        return Accept(json=True, event_stream=True)
    return negotiate(headers, answered.method if isinstance(answered, Request) else "", answered.request_id)
