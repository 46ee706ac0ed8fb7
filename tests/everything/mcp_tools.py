"""The module in which the catalogue finds this app's tools, resources and prompts."""

from tests.everything import (
    asking_tools,
    conformance_client,
    conformance_input,
    conformance_prompts,
    conformance_resources,
    conformance_tasks,
    conformance_tools,
    flooding_tools,
    measuring_tools,
    noise,
    starting_tools,
)

__all__ = [
    "asking_tools",
    "conformance_client",
    "conformance_input",
    "conformance_prompts",
    "conformance_resources",
    "conformance_tasks",
    "conformance_tools",
    "flooding_tools",
    "measuring_tools",
    "noise",
    "starting_tools",
]
