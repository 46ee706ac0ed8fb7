"""A tool that requires a permission."""

from mcp_app.tools import ToolContext, tool


@tool(permissions=["auth.view_user"])
def whoami(ctx: ToolContext) -> str:
    """Who calls."""
    return str(ctx.user)
