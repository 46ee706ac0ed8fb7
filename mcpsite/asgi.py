"""The site's ASGI application: MCP at /mcp, and Django for everything else."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")
site = get_asgi_application()

# The apps must be loaded before these.
from django.conf import settings  # noqa: E402
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: E402

from mcp_app.routing import mcp_application  # noqa: E402

application = mcp_application(ASGIStaticFilesHandler(site) if settings.DEBUG else site)
