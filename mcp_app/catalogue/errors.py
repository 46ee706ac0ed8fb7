"""What goes wrong between a caller and a tool's code.

    ImproperlyConfigured
    └── InvalidTool             a tool that cannot be offered: raised while its module is imported
    CatalogueError
    ├── ToolError               a tool's own words for the model
    ├── InvalidArguments        the caller's arguments do not fit: the model can mend that
    ├── InvalidResult           what a tool returned cannot be sent: the tool's author must mend that
    └── InvalidCursor           a cursor that this list did not issue

The words of `ToolError`, `InvalidArguments` and `InvalidCursor` are for clients; those of `InvalidResult` for the log.
"""

from django.core.exceptions import ImproperlyConfigured


class InvalidTool(ImproperlyConfigured):
    """A tool cannot be registered; the message names it, its place in the code, and what to change."""


class CatalogueError(Exception):
    """Root of what this room raises while it serves."""


class ToolError(CatalogueError):
    """Raised by a tool to tell the model what went wrong; the text is sent as it stands, as an `isError` result."""


class InvalidArguments(CatalogueError):  # noqa: N818 - named for what is wrong
    """The arguments do not fit the tool's input schema; the text has one line for a problem."""


class InvalidResult(CatalogueError):  # noqa: N818 - named for what is wrong
    """The tool returned what cannot be sent, or what contradicts its output schema."""


class InvalidCursor(CatalogueError):  # noqa: N818 - named for what is wrong
    """The cursor is not one that this list issued (-32602)."""
