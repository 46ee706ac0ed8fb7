"""The door for HTTP: puts the MCP endpoint in front of a site's own ASGI application.

Refuses WebSockets: MCP has none, and nothing of the site's is taken away, because Django serves none either.
"""

from typing import Any

from channels.routing import ProtocolTypeRouter

from mcp_app.transport.consumers import MCPConsumer
from mcp_app.transport.paths import local_path
from mcp_app.transport.resource_metadata import described_at, resource_metadata
from mcp_app.transport.shutdown import lifespan


def mcp_application(site: Any, path: str = "/mcp") -> ProtocolTypeRouter:
    """An ASGI application that serves MCP at `path`, with or without a slash at its end, and `site` everywhere else.

    Where the settings have `OAUTH_RESOURCE` and `OAUTH_ISSUERS`, the metadata of that resource as well (RFC 9728).
    A site with routers of its own mounts `MCPConsumer.as_asgi()` itself, `resource_metadata` at the well-known path,
    and `lifespan` for "lifespan".
    """
    endpoint = MCPConsumer.as_asgi()
    paths = {path.rstrip("/"), path.rstrip("/") + "/"}

    async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
        local = local_path(scope)
        if local in paths:
            await endpoint(scope, receive, send)
        elif described_at(local) is not None:
            await resource_metadata(scope, receive, send)
        else:
            await site(scope, receive, send)

    return ProtocolTypeRouter({"http": http, "websocket": _refuse_websocket, "lifespan": lifespan})


async def _refuse_websocket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1000})
