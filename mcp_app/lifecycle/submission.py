"""What is submitted: a call that passed every check, and what is kept of what it was given."""

from dataclasses import dataclass, field, fields
from typing import Any, TypedDict
from uuid import UUID

from mcp_app import request_ids
from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.events import storable
from mcp_app.lifecycle.redaction import Kind, redact, redact_each
from mcp_app.states import CancelPolicy


class Terms(TypedDict):
    """What a call takes from its tool; durations in seconds."""

    tool: str
    cancel_policy: CancelPolicy
    cooperative_grace: float
    hard_grace: float
    time_limit: float
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What the request that brings a call, or answers to what it asks, says of itself: JSON-ready values."""

    jsonrpc_id: str | int
    server: UUID | None = None
    progress_token: str | int | None = None
    log_level: str = ""
    client_info: dict[str, Any] = field(default_factory=dict)
    client_capabilities: dict[str, Any] = field(default_factory=dict)
    trace_context: dict[str, str] = field(default_factory=dict)
    language: str = ""
    """The site's language that its caller prefers; "": the site's own."""
    remote_address: str = ""
    caller_limit: float | None = None
    """Seconds that its caller gives it, from queueing to its end; None: no limit of its own."""

    @property
    def of_itself(self) -> dict[str, Any]:
        """The same as columns of the row."""
        return {each.name: getattr(self, each.name) for each in fields(Asking)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Asking):
    """A `tools/call` that passed every protocol check; durations in seconds, JSON-ready values."""

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
    """To what it may ask: an unchecked InputResponses object."""
    session: UUID | None = None
    parent: UUID | None = None
    """The request whose tool starts it (see `children`)."""
    depth: int = 0
    id: UUID = field(default_factory=request_ids.new)
    """The row's, chosen before the first attempt to store it: a repeated attempt makes no second row."""
    kept_arguments: dict[str, Any] | None = None
    """What redaction leaves of the arguments; None: it is asked now, so make a submission outside of transactions."""
    kept_answers: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        if self.kept_arguments is None:
            object.__setattr__(self, "kept_arguments", redact(Kind.ARGUMENTS, self.tool, self.arguments).kept)
        answers = redact_each(Kind.ANSWER, self.tool, storable(self.answers))
        object.__setattr__(self, "kept_answers", answers.kept)
