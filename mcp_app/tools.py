"""What a site's `mcp_tools.py` needs, in one place: `from mcp_app.tools import tool, ToolContext`.

The door for tool authors. It owns nothing: the parts live in `catalogue` and `execution`.
"""

from mcp_app.catalogue.asking import InputRequired
from mcp_app.catalogue.blocks import Audio, Image
from mcp_app.catalogue.errors import CallFailed, CannotAsk, InvalidArguments, ProtocolError, ToolError
from mcp_app.catalogue.questions import Answer, Form, Link, Roots, Sampling
from mcp_app.catalogue.registry import tool
from mcp_app.execution.context import ToolContext, current_context
from mcp_app.execution.interrupt import ToolCancelled
from mcp_app.execution.starting import StartedCall
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
