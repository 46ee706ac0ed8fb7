"""The admin's pages of tools, requests, connections, cancellations and tokens, and the dashboard.

    tools/          tools, and trying one
    dashboard/      the site's current load, and statistics of ended calls
    cancellations/  the audit of cancellations, and its export
    connections/    sessions and listen streams, which can be closed
    tokens/         bearer tokens
    requests/       requests in flight and ended, and their cancellation
    arguments/      a form made from a tool's input schema
    lists/          base classes of the lists

These pages decide which users may see and do which things. They write no request and no audit row themselves:
they call `lifecycle`. Django's admin imports this package on sites that use it.
"""

from django.apps import apps
from django.contrib import admin

# Each registers its pages.
import mcp_app.admin.cancellations.pages
import mcp_app.admin.connections.listen_streams
import mcp_app.admin.connections.sessions
import mcp_app.admin.dashboard.pages
import mcp_app.admin.requests.pages
import mcp_app.admin.tokens.pages
import mcp_app.admin.tools.pages  # noqa: F401


def register_pages(site: admin.AdminSite) -> None:
    """Register the pages of this app with another admin site too."""
    for model in apps.get_app_config("mcp_app").get_models():
        if admin.site.is_registered(model):
            site.register(model, type(admin.site.get_model_admin(model)))
