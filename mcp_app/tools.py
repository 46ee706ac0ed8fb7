"""What a site's `mcp_tools.py` needs, in one place: `from mcp_app.tools import tool, ToolContext`.

The door for tool authors. It owns nothing: the parts live in `catalogue` and `execution`.
"""

from mcp_app.catalogue.blocks import Audio, Image
from mcp_app.catalogue.errors import ToolError
from mcp_app.catalogue.registry import tool
from mcp_app.execution.context import ToolContext, current_context
from mcp_app.execution.interrupt import ToolCancelled
from mcp_app.states import CancelPolicy

__all__ = [
    "Audio",
    "CancelPolicy",
    "Image",
    "ToolCancelled",
    "ToolContext",
    "ToolError",
    "current_context",
    "tool",
]
