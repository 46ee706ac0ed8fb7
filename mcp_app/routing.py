"""The door for HTTP: puts the MCP endpoints in front of a site's own ASGI application.

Refuses WebSockets: MCP has none, and nothing of the site's is taken away, because Django serves none either.
"""

from typing import Any

from channels.routing import ProtocolTypeRouter
from django.core.exceptions import ImproperlyConfigured

from mcp_app.conf import settings
from mcp_app.transport import health as probes
from mcp_app.transport.consumers import MCPConsumer
from mcp_app.transport.paths import local_path
from mcp_app.transport.resource_metadata import described_at, resource_metadata
from mcp_app.transport.shutdown import lifespan


def mcp_application(site: Any, path: str | None = None, *, health: str | None = None) -> ProtocolTypeRouter:
    """An ASGI application that serves MCP, and `site` everywhere else.

    At `path`, by default `MCP["PATH"]`, with or without a slash at its end; where the settings have `ENDPOINTS`, at the
    path of each, and `path` is left out. Where they have `OAUTH_RESOURCE` and `OAUTH_ISSUERS`, the metadata of that
    resource as well (RFC 9728). Below `health`, as "/health", `live` and `ready` for probes, whatever name they say and
    without Django's middleware (`docs/operations.md`).

    A site with routers of its own mounts `MCPConsumer.as_asgi()` itself, of several
    `MCPConsumer.as_asgi(endpoint="name")`, `resource_metadata` at the well-known paths, and `lifespan` for "lifespan".

    Raises ImproperlyConfigured where it cannot be said which endpoint is at a path.
    """
    endpoints: dict[str, Any] = {} if health is None else probes.paths(health)
    for endpoint, found in _paths(path).items():
        application = MCPConsumer.as_asgi(endpoint=endpoint)
        endpoints |= {found.rstrip("/"): application, found.rstrip("/") + "/": application}

    async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
        local = local_path(scope)
        if local in endpoints:
            await endpoints[local](scope, receive, send)
        elif described_at(local) is not None:
            await resource_metadata(scope, receive, send)
        else:
            await site(scope, receive, send)

    return ProtocolTypeRouter({"http": http, "websocket": _refuse_websocket, "lifespan": lifespan})


def _paths(path: str | None) -> dict[str, str]:
    """Where each endpoint is, by its name."""
    if path is not None and settings.ENDPOINTS:
        raise ImproperlyConfigured('MCP["ENDPOINTS"] says where MCP is served: call mcp_application without a path.')
    paths = {endpoint: path or settings.at(endpoint).PATH for endpoint in settings.endpoints}
    if len({each.rstrip("/") for each in paths.values()}) < len(paths):
        raise ImproperlyConfigured('Two of MCP["ENDPOINTS"] have one PATH; give each its own.')
    return paths


async def _refuse_websocket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1000})
