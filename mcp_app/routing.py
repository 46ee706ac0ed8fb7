"""The door for HTTP: puts the MCP endpoint in front of a site's own ASGI application.

Refuses WebSockets: MCP has none, and nothing of the site's is taken away, because Django serves none either.
"""

from typing import Any

from channels.routing import ProtocolTypeRouter

from mcp_app.transport.consumers import MCPConsumer
from mcp_app.transport.shutdown import lifespan


def mcp_application(site: Any, path: str = "/mcp") -> ProtocolTypeRouter:
    """An ASGI application that serves MCP at `path`, with or without a slash at its end, and `site` everywhere else.

    A site with routers of its own mounts `MCPConsumer.as_asgi()` itself, and `lifespan` for "lifespan".
    """
    endpoint = MCPConsumer.as_asgi()
    paths = {path.rstrip("/"), path.rstrip("/") + "/"}

    async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
        application = endpoint if _local_path(scope) in paths else site
        await application(scope, receive, send)

    return ProtocolTypeRouter({"http": http, "websocket": _refuse_websocket, "lifespan": lifespan})


def _local_path(scope: dict[str, Any]) -> str:
    """The path below the mount. A root path that is not part of it is ignored: Daphne takes one from the client."""
    path, root = str(scope["path"]), str(scope.get("root_path") or "").rstrip("/")
    return path.removeprefix(root) if path.startswith(root + "/") else path


async def _refuse_websocket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1000})
