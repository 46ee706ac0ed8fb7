"""Where the catalogue finds these tests' tools."""

import os

from tests.execution import held_start, tools

__all__ = ["tools"]

if "MCP_TEST_HELD_START" in os.environ:
    held_start.install()
