"""How a tool is used, for its page: a table of what the tallies say of it, and the way to its dashboard."""

from typing import Final

from django.contrib.admin import AdminSite
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from mcp_app.admin import dashboard_filters
from mcp_app.admin.figures import row
from mcp_app.lifecycle import statistics
from mcp_app.models import Tally

VIEW: Final = "mcp_app.view_tally"


def shown(site: AdminSite, tool: str) -> SafeString:
    """The figures of each period. One statement; raises django.db.Error."""
    found = statistics.of_tool(tool)
    context = {
        "rows": [(dashboard_filters.PERIODS[period], row(figures)) for period, figures in found.items()],
        "dashboard_url": dashboard_filters.url(site, tool) if site.is_registered(Tally) else "",
    }
    return render_to_string("admin/mcp_app/tool/statistics.html", context)
