"""The archive's ASGI application: its Channels routers, and at the end the lines that `check` requires."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "archive.settings")
site = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import path  # noqa: E402
from documents.consumers import Echo  # noqa: E402

application = ProtocolTypeRouter(
    {"http": site, "websocket": AuthMiddlewareStack(URLRouter([path("ws/echo/", Echo.as_asgi())]))}
)

from mcp_app.routing import mcp_application  # noqa: E402

application = mcp_application(application)
