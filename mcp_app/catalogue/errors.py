"""What goes wrong between a caller and a tool's code.

    ImproperlyConfigured
    └── InvalidTool             a tool that cannot be offered: raised while its module is imported
        └── InvalidForm         a question that no client could show
    CatalogueError
    ├── ToolError               a tool's own words for the model
    │   └── CannotAsk           the client did not declare what a question needs
    ├── InvalidArguments        the caller's arguments do not fit: the model can mend that
    ├── InvalidResult           what a tool returned cannot be sent: the tool's author must mend that
    ├── InvalidCursor           a cursor that this list did not issue
    ├── MalformedAnswer         a client's answer is none to what it was asked
    └── UnfitAnswer             a user's answer does not fit the form: it is asked again

The words of `ToolError`, `InvalidArguments` and `InvalidCursor` are for clients; those of `InvalidResult` for the log.
"""

from django.core.exceptions import ImproperlyConfigured


class InvalidTool(ImproperlyConfigured):
    """A tool cannot be registered; the message names it, its place in the code, and what to change."""


class InvalidForm(InvalidTool):
    """A question cannot be asked of any client; the message says what to change."""


class CatalogueError(Exception):
    """Root of what this room raises while it serves."""


class ToolError(CatalogueError):
    """Raised by a tool to tell the model what went wrong; the text is sent as it stands, as an `isError` result."""


class CannotAsk(ToolError):  # noqa: N818 - named for what is wrong
    """The client did not declare that it can be asked this. Uncaught, the call ends with these words."""


class InvalidArguments(CatalogueError):  # noqa: N818 - named for what is wrong
    """The arguments do not fit the tool's input schema; the text has one line for a problem."""


class InvalidResult(CatalogueError):  # noqa: N818 - named for what is wrong
    """The tool returned what cannot be sent, or what contradicts its output schema."""


class InvalidCursor(CatalogueError):  # noqa: N818 - named for what is wrong
    """The cursor is not one that this list issued (-32602)."""


class MalformedAnswer(CatalogueError):  # noqa: N818 - named for what is wrong
    """What the client sent is no result of what it was asked (-32602)."""


class UnfitAnswer(CatalogueError):  # noqa: N818 - named for what is wrong
    """The user's answer does not fit the form; the text says why, and it is asked again."""
