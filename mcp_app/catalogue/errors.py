"""What goes wrong between a caller and the code of a tool, resource or prompt.

    ImproperlyConfigured
    └── InvalidDeclaration      what cannot be offered: raised while its module is imported
        ├── InvalidTool  InvalidResource  InvalidPrompt
        └── InvalidForm         a question that no client could show
    CatalogueError
    ├── ToolError               a tool's own words for the model
    │   ├── CannotAsk           the client cannot be asked: in prompts and resources, too
    │   └── CallFailed          a call that a tool started did not complete
    ├── ProtocolError           a tool's JSON-RPC error instead of a result
    ├── ResourceError           a resource's own words for the client
    ├── PromptError             a prompt's own words for the client
    ├── ResourceNotFound        there is no such resource, or not for this caller
    ├── InsufficientScope       the caller's token was not given for this
    ├── InvalidArguments        the caller's arguments do not fit: the model can mend that
    ├── InvalidResult           what the code returned cannot be sent: its author must mend that
    │   └── TooLarge            it is larger than this server sends
    ├── InvalidCursor           a cursor that this list did not issue
    ├── MalformedAnswer         a client's answer is none to what it was asked
    └── UnfitAnswer             a user's answer does not fit the form: it is asked again

The words of `ToolError`, `ProtocolError`, `ResourceError`, `PromptError`, `InvalidArguments`, `TooLarge` and
`InvalidCursor` are for clients; those of the others for the log.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from mcp_app.protocol.errors import INTERNAL_ERROR, is_free
from mcp_app.states import Status


class InvalidDeclaration(ImproperlyConfigured):
    """Something cannot be registered; the message names it, its place in the code, and what to change."""


class InvalidTool(InvalidDeclaration):
    """A tool cannot be registered."""


class InvalidResource(InvalidDeclaration):
    """A resource or resource template cannot be registered."""


class InvalidPrompt(InvalidDeclaration):
    """A prompt cannot be registered."""


class InvalidForm(InvalidDeclaration):
    """A question cannot be asked of any client; the message says what to change."""


class CatalogueError(Exception):
    """Root of what this room raises while it serves."""


class ToolError(CatalogueError):
    """Raised by a tool to tell the model what went wrong; the text is sent as it stands, as an `isError` result."""


class ProtocolError(CatalogueError):
    """Raised by a tool whose call is to be answered by a JSON-RPC error instead of a result (-32603 unless given).

    For faults of the protocol; what a model can mend or work around is a `ToolError`. Raises ValueError for a code that
    is JSON-RPC's or the protocol's to give a meaning (2026-07-28 basic/index "Error Codes").
    """

    def __init__(self, message: str, code: int = INTERNAL_ERROR) -> None:
        if not is_free(code):
            raise ValueError(f"{code!r} is no code of a tool's: take one outside -32768 to -32000, or JSON-RPC's own")
        super().__init__(message)
        self.code = code


class CannotAsk(ToolError):  # noqa: N818 - named for what is wrong
    """The client cannot be asked this. Uncaught it ends the request with -32021 where the client could declare what is
    missing, and else, or if it is an older one, a tool's call with these words.

    `required`: the client capabilities that are missing, a ClientCapabilities object; empty where none would help.
    """

    def __init__(self, message: str, required: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.required = required


class CallFailed(ToolError):  # noqa: N818 - named for what is wrong
    """A call that a tool started failed, was cancelled or is lost; the text is how a client would be told.

    `status` is how it ended.
    """

    def __init__(self, message: str, tool: str, status: Status) -> None:
        super().__init__(message)
        self.tool = tool
        self.status = status


class ResourceError(CatalogueError):
    """Raised by a resource to tell its reader what went wrong; the text is sent as it stands (-32603)."""


class PromptError(CatalogueError):
    """Raised by a prompt whose arguments make no prompt; the text is sent as it stands (-32602)."""


class ResourceNotFound(CatalogueError):  # noqa: N818 - named for what is wrong
    """Raised by a resource where there is none at this URI, or none that this caller may see (-32602)."""


class InsufficientScope(CatalogueError):  # noqa: N818 - named for what is wrong
    """The caller's token was not given for this: it is challenged with all the scopes that this takes."""

    def __init__(self, missing: Sequence[str], needed: Sequence[str]) -> None:
        super().__init__(*missing)
        self.missing = missing
        self.needed = needed


class Problem(NamedTuple):
    """What is wrong with a value among the arguments."""

    path: tuple[str | int, ...]
    """The steps to it; none: it is all of them."""
    words: str


class InvalidArguments(CatalogueError):  # noqa: N818 - named for what is wrong
    """The arguments do not fit the parameters; for a tool, the text has one line for a problem.

    `problems`: the same, told apart, where they were found by a schema.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class InvalidResult(CatalogueError):  # noqa: N818 - named for what is wrong
    """The code returned what cannot be sent, or what contradicts its output schema."""


class TooLarge(InvalidResult):
    """The result is larger than `MAX_RESULT_BYTES`: it is never cut."""


class InvalidCursor(CatalogueError):  # noqa: N818 - named for what is wrong
    """The cursor is not one that this list issued (-32602)."""


class MalformedAnswer(CatalogueError):  # noqa: N818 - named for what is wrong
    """What the client sent is no result of what it was asked (-32602)."""


class UnfitAnswer(CatalogueError):  # noqa: N818 - named for what is wrong
    """The user's answer does not fit the form; the text says why, and it is asked again."""
