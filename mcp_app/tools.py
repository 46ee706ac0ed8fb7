"""Public API for tools. Import it in an app's `mcp_tools.py`::

    from mcp_app.tools import tool

    @tool
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

The implementation is in `catalogue` and `execution`.
"""

from mcp_app.catalogue.content.blocks import Audio, Image
from mcp_app.catalogue.errors import CallFailed, CannotAsk, InvalidArguments, ProtocolError, ToolError
from mcp_app.catalogue.input.asking import InputRequired
from mcp_app.catalogue.input.questions import Answer, Form, Link, Roots, Sampling
from mcp_app.catalogue.registry import tool
from mcp_app.execution.stopping.interrupt import ToolCancelled
from mcp_app.execution.tool.context import ToolContext, current_context
from mcp_app.execution.tool.starting import StartedCall
from mcp_app.states import CancelPolicy, TaskMode

__all__ = [
    "Answer",
    "Audio",
    "CallFailed",
    "CancelPolicy",
    "CannotAsk",
    "Form",
    "Image",
    "InputRequired",
    "InvalidArguments",
    "Link",
    "ProtocolError",
    "Roots",
    "Sampling",
    "StartedCall",
    "TaskMode",
    "ToolCancelled",
    "ToolContext",
    "ToolError",
    "current_context",
    "tool",
]
