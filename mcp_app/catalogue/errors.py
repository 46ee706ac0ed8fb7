"""Exceptions of declarations, arguments, answers and results.

    ImproperlyConfigured
    └── InvalidDeclaration      a declaration cannot be offered; raised while its module is imported
        ├── InvalidTool  InvalidResource  InvalidPrompt
        └── InvalidForm         a question that no client could show
    CatalogueError
    ├── ToolError               a tool's own message for the model
    │   ├── CannotAsk           the client cannot be asked; also in prompts and resources
    │   └── CallFailed          a call that a tool started did not complete
    ├── ProtocolError           a tool's JSON-RPC error instead of a result
    ├── ResourceError           a resource's own message for the client
    ├── PromptError             a prompt's own message for the client
    ├── ResourceNotFound        there is no such resource, or not for this caller
    ├── InsufficientScope       the caller's token lacks a scope
    ├── InvalidArguments        the caller's arguments do not fit; the model can correct them
    ├── InvalidResult           the return value cannot be sent; the author must correct it
    │   └── TooLarge            the result exceeds the size limit
    ├── InvalidCursor           a cursor that this list did not issue
    ├── MalformedAnswer         a client's answer has the wrong form
    └── UnfitAnswer             a user's answer does not fit the form; the question is repeated

The messages of `ToolError`, `ProtocolError`, `ResourceError`, `PromptError`, `InvalidArguments`,
`TooLarge` and `InvalidCursor` are for clients. Those of the others are for the log and, under
`DEBUG`, for clients.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from mcp_app.protocol.errors import INTERNAL_ERROR, is_author_code
from mcp_app.states import Status


class InvalidDeclaration(ImproperlyConfigured):
    """A declaration is refused. The message names it, its place in the code, and what to change."""


class InvalidTool(InvalidDeclaration):
    """A tool cannot be registered."""


class InvalidResource(InvalidDeclaration):
    """A resource or resource template cannot be registered."""


class InvalidPrompt(InvalidDeclaration):
    """A prompt cannot be registered."""


class InvalidForm(InvalidDeclaration):
    """A question cannot be asked of any client. The message says what to change."""


class CatalogueError(Exception):
    """Base class of the exceptions that are raised while requests are served."""


class ToolError(CatalogueError):
    """Raised by a tool to report an error to the model.

    The text is sent unchanged, as an `isError` result. Example::

        raise ToolError("There is no customer with this number.")

    Source: 2026-07-28 server/tools "Error Handling".
    """


class ProtocolError(CatalogueError):
    """Raised by a tool to answer its call with a JSON-RPC error instead of a result.

    Use it only for errors of the protocol. Errors that a model can correct or work around should be
    a `ToolError`. The text is sent unchanged. `code` is one of JSON-RPC's own errors, by default
    -32603 (internal error), or outside of -32768 to -32000. Raises `ValueError` for other codes.
    Source: 2026-07-28 basic/index "Error Codes".
    """

    def __init__(self, message: str, code: int = INTERNAL_ERROR) -> None:
        if not is_author_code(code):
            raise ValueError(
                f"a tool cannot use the error code {code!r}: use one outside -32768 to -32000, or one of JSON-RPC's own"
            )
        super().__init__(message)
        self.code = code


class CannotAsk(ToolError):  # noqa: N818 - named after the problem
    """The client cannot be asked this question.

    If it is not caught, it ends the request. The error is -32021 if the client could declare the
    missing capability. Otherwise, and for older clients, a tool's call fails with this message.

    - `required`: the missing client capabilities, a ClientCapabilities object. Empty if none would
      help.

    Source: 2026-07-28 basic/index "Error Codes".
    """

    def __init__(self, message: str, required: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.required = required


class CallFailed(ToolError):  # noqa: N818 - named after the problem
    """A call that a tool started has failed, was cancelled or is lost.

    The text is the message that a client would get. `tool` is its tool and `status` its final
    status.
    """

    def __init__(self, message: str, tool: str, status: Status) -> None:
        super().__init__(message)
        self.tool = tool
        self.status = status


class ResourceError(CatalogueError):
    """Raised by a resource to report an error to its reader.

    The text is sent unchanged (-32603). Source: 2026-07-28 server/resources "Error Handling".
    """


class PromptError(CatalogueError):
    """Raised by a prompt if its arguments make no prompt.

    The text is sent unchanged (-32602). Source: 2026-07-28 server/prompts "Error Handling".
    """


class ResourceNotFound(CatalogueError):  # noqa: N818 - named after the problem
    """Raised by a resource if the caller may read none at this URI (-32602).

    The client gets "Resource not found." and the URI, whatever the text is. Source: 2026-07-28
    server/resources "Error Handling".
    """


class InsufficientScope(CatalogueError):  # noqa: N818 - named after the problem
    """The caller's token lacks a scope. The challenge to the client names all `needed` scopes."""

    def __init__(self, missing: Sequence[str], needed: Sequence[str]) -> None:
        super().__init__(*missing)
        self.missing = missing
        self.needed = needed


class Problem(NamedTuple):
    """A problem with one value among the arguments."""

    path: tuple[str | int, ...]
    """The path to the value. Empty for the arguments as a whole."""
    words: str


class InvalidArguments(CatalogueError):  # noqa: N818 - named after the problem
    """The arguments do not fit the parameters. For a tool, the text has one line for each problem.

    - `problems`: the same problems as pairs of a path and a sentence, if a schema was violated.
      Otherwise empty.

    Source: 2026-07-28 server/tools "Error Handling".
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class InvalidResult(CatalogueError):  # noqa: N818 - named after the problem
    """The return value cannot be sent, or contradicts the output schema.

    The text is for the author and contains the place. `told` is the message for clients, without
    values, names or types of the site.
    """

    def __init__(self, message: str, told: str = "it is malformed") -> None:
        super().__init__(message)
        self.told = told


class TooLarge(InvalidResult):
    """The result is larger than `MAX_RESULT_BYTES`. Results are never truncated."""


class InvalidCursor(CatalogueError):  # noqa: N818 - named after the problem
    """The cursor was not issued by this list (-32602)."""


class MalformedAnswer(CatalogueError):  # noqa: N818 - named after the problem
    """The client's answer is no valid result for the question (-32602)."""


class UnfitAnswer(CatalogueError):  # noqa: N818 - named after the problem
    """The user's answer does not fit the form.

    The text has the reason, and the question is repeated.
    """
