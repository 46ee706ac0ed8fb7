"""A tool that the old version does not have."""

from mcp_app.tools import tool


@tool
def newest() -> str:
    """Return a text that names the new version."""
    return "of the new version"
