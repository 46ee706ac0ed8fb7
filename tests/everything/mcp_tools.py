"""Where the catalogue finds this app's tools."""

from tests.everything import conformance_tools, measuring_tools

__all__ = ["conformance_tools", "measuring_tools"]
