"""Where the catalogue finds this app's tools, resources and prompts."""

from tests.everything import conformance_prompts, conformance_resources, conformance_tools, measuring_tools, noise

__all__ = ["conformance_prompts", "conformance_resources", "conformance_tools", "measuring_tools", "noise"]
