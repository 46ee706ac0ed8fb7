"""Where the catalogue finds these tests' tools."""

from tests.execution import tools

__all__ = ["tools"]
