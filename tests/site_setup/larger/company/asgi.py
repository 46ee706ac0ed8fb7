"""The company's ASGI application: its own routers, with the MCP endpoint as one of the routes."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "company.settings")
site = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import path, re_path  # noqa: E402
from orders.consumers import Echo  # noqa: E402

from mcp_app.transport.consumers import MCPConsumer  # noqa: E402
from mcp_app.transport.shutdown import lifespan  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": URLRouter([path("mcp", MCPConsumer.as_asgi()), re_path("", site)]),
        "websocket": URLRouter([path("ws/echo/", Echo.as_asgi())]),
        "lifespan": lifespan,
    }
)
