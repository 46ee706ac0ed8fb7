"""The capabilities that the server advertises.

Resources, prompts and completions are advertised if the site declares any.
Source: 2026-07-28 server/discover, basic/index "Capability Negotiation".
"""

from typing import Any

from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.catalogue.resources import registered_resources
from mcp_app.protocol.tasks import CAPABILITY


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
