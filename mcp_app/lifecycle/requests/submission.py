"""A call that passed all checks, with the redacted values that are stored for it."""

from dataclasses import dataclass, field, fields
from typing import Any, TypedDict
from uuid import UUID

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.redaction import PayloadKind, redact, redact_each
from mcp_app.models import request_ids
from mcp_app.states import CancelPolicy


def redacted_arguments(tool: str, sent: dict[str, Any], read: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments to store. The site's redaction sees the arguments as the tool receives them (`read`).

    If it changes nothing, the arguments are stored as they were sent.
    """
    redacted = redact(PayloadKind.ARGUMENTS, tool, read)
    kept: dict[str, Any] = sent if redacted.kept is redacted.value else redacted.kept
    return kept


class Terms(TypedDict):
    """The settings of a call that come from its tool. Durations are in seconds."""

    tool: str
    cancel_policy: CancelPolicy
    cooperative_grace: float
    hard_grace: float
    time_limit: float
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDetails:
    """The metadata of a JSON-RPC request, as JSON-ready values."""

    jsonrpc_id: str | int
    server: UUID | None = None
    progress_token: str | int | None = None
    log_level: str = ""
    client_info: dict[str, Any] = field(default_factory=dict)
    client_capabilities: dict[str, Any] = field(default_factory=dict)
    trace_context: dict[str, str] = field(default_factory=dict)
    language: str = ""
    """The language of the site that the caller prefers, or "" for the site's default."""
    remote_address: str = ""
    caller_limit: float | None = None
    """The caller's time limit in seconds, from queueing to the end, or `None`."""

    @property
    def of_itself(self) -> dict[str, Any]:
        """The columns of the row."""
        return {each.name: getattr(self, each.name) for each in fields(RequestDetails)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(RequestDetails):
    """A `tools/call` that passed all checks. Durations are in seconds, and values are JSON-ready."""

    tool: str
    arguments: dict[str, Any]
    protocol_version: str
    principal: Principal
    cancel_policy: CancelPolicy
    cooperative_grace: float
    hard_grace: float
    time_limit: float
    queue: str
    method: str = "tools/call"
    answers: dict[str, Any] = field(default_factory=dict)
    """Answers to questions that the tool may ask: an unchecked InputResponses object."""
    session: UUID | None = None
    parent: UUID | None = None
    """The request whose tool starts this call (see `children`)."""
    depth: int = 0
    id: UUID = field(default_factory=request_ids.new)
    """The id of the row. It is chosen before the first attempt to store it, so that a retry makes no second row."""
    kept_arguments: dict[str, Any] | None = None
    """The redacted arguments. `None` calls the site's redaction now, which must not happen in a transaction."""
    kept_answers: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        if self.kept_arguments is None:
            object.__setattr__(self, "kept_arguments", redacted_arguments(self.tool, self.arguments, self.arguments))
        answers = redact_each(PayloadKind.ANSWER, self.tool, storable(self.answers))
        object.__setattr__(self, "kept_answers", answers.kept)
