"""A tool that the version before does not have."""

from mcp_app.tools import tool


@tool
def newest() -> str:
    """Say so."""
    return "of the new version"
