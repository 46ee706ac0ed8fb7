"""The capabilities that the server advertises, and the methods that belong to them.

Resources, prompts and completions are advertised if the site declares any.
Source: 2026-07-28 server/discover, basic/index "Capability Negotiation".
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.catalogue.resources import registered_resources
from mcp_app.protocol.tasks import CAPABILITY

_CAPABILITIES: Final[Mapping[str, str]] = MappingProxyType(
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
    """Return an endpoint's ServerCapabilities object, which is the same for every caller."""
    resources = [each for each in registered_resources().values() if endpoint in each.access.endpoints]
    prompts = [each for each in registered_prompts().values() if endpoint in each.access.endpoints]
    # Log messages are sent on the stream of a call whose client asked for them with `logLevel`.
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}, **CAPABILITY}
    if resources:
        capabilities["resources"] = {"listChanged": True, "subscribe": True}
    if prompts:
        capabilities["prompts"] = {"listChanged": True}
    if any(each.completions for each in resources) or any(each.completions for each in prompts):
        capabilities["completions"] = {}
    return capabilities


def is_delivered(method: str, endpoint: str) -> bool:
    """Whether the endpoint advertises the capability of `method`, or the method needs none."""
    capability = _CAPABILITIES.get(method)
    return capability is None or capability in server_capabilities(endpoint)
