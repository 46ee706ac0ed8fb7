import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_asgi_application()

from mcp_app.routing import mcp_application  # noqa: E402 - imports models

application = mcp_application(application)
