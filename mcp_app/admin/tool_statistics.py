"""How a tool is used, for its page: a table of what the tallies say of it, and the way to its dashboard."""

from typing import Final

from django.contrib.admin import AdminSite
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from mcp_app.admin import dashboard
from mcp_app.admin.figures import row
from mcp_app.lifecycle import statistics
from mcp_app.models import Tally

VIEW: Final = dashboard.VIEW


def shown(site: AdminSite, tool: str) -> SafeString:
    """The figures of each period. One statement; raises django.db.Error."""
    found = statistics.of_tool(tool)
    context = {
        "rows": [(dashboard.PERIODS[period], row(figures)) for period, figures in found.items()],
        "dashboard_url": dashboard.url(site, tool) if site.is_registered(Tally) else "",
    }
    return render_to_string("admin/mcp_app/tool/statistics.html", context)
