"""Change the list of tools in the rows, as an administrator does, so that every process sees the change."""

import time
from typing import Final

from mcp_app import databases
from mcp_app.catalogue import tool_rows
from mcp_app.models import Tool

CHANGED_TOOL: Final = "trigger_change"


def change_tools() -> None:
    """Change the title of one tool, and notify the listeners."""
    with databases.atomic():
        Tool.objects.filter(pk=CHANGED_TOOL).update(title=f"Changed at {time.time()!r}")
        tool_rows.touch()
