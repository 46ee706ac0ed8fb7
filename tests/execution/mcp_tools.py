"""Where the catalogue finds these tests' tools."""

import os

from tests.execution import held_start, task_ends, tools

__all__ = ["task_ends", "tools"]

if "MCP_TEST_HELD_START" in os.environ:
    held_start.install()
