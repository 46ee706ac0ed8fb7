"""What this server says it can do, and which methods stand behind that: only what is delivered.

Resources, prompts and completions are there where some are declared, in whatever process: all run the same code.
Source: 2026-07-28 server/discover, basic/index "Capability Negotiation".
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.catalogue.resources import registered_resources
from mcp_app.protocol.tasks import CAPABILITY

_BEHIND: Final[Mapping[str, str]] = MappingProxyType(
    {
        "resources/list": "resources",
        "resources/templates/list": "resources",
        "resources/read": "resources",
        "resources/subscribe": "resources",
        "resources/unsubscribe": "resources",
        "prompts/list": "prompts",
        "prompts/get": "prompts",
        "completion/complete": "completions",
    }
)


def server_capabilities(endpoint: str) -> dict[str, Any]:
    """An endpoint's ServerCapabilities object; the same for every caller."""
    resources = [each for each in registered_resources().values() if endpoint in each.access.endpoints]
    prompts = [each for each in registered_prompts().values() if endpoint in each.access.endpoints]
    # Log lines are delivered: on the stream of a call that asks for them with `logLevel`.
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}, **CAPABILITY}
    if resources:
        capabilities["resources"] = {"listChanged": True, "subscribe": True}
    if prompts:
        capabilities["prompts"] = {"listChanged": True}
    if any(each.completions for each in resources) or any(each.completions for each in prompts):
        capabilities["completions"] = {}
    return capabilities


def is_delivered(method: str, endpoint: str) -> bool:
    """Whether the capability that `method` stands behind, if any, is advertised at the endpoint."""
    capability = _BEHIND.get(method)
    return capability is None or capability in server_capabilities(endpoint)
