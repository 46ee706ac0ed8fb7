"""A change of the tool list, made as an administrator makes one: in the rows, for every process to see."""

import time
from typing import Final

from mcp_app import databases
from mcp_app.catalogue import rows
from mcp_app.models import Tool

CHANGED_TOOL: Final = "trigger_change"


def change_tools() -> None:
    """Give one tool another title, and say so to whoever listens."""
    with databases.atomic():
        Tool.objects.filter(pk=CHANGED_TOOL).update(title=f"Changed at {time.time()!r}")
        rows.touch()
