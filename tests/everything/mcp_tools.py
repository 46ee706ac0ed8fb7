"""Where the catalogue finds this app's tools."""

from tests.everything import asking_tools, conformance_input, conformance_tools, measuring_tools

__all__ = ["asking_tools", "conformance_input", "conformance_tools", "measuring_tools"]
