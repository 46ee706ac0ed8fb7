"""How a tool is used, for its page: what of it is in flight, what the tallies say of it, the way to its dashboard."""

from typing import Any, Final

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from mcp_app.admin import dashboard_filters
from mcp_app.admin.figures import count, row
from mcp_app.lifecycle import live_numbers, statistics
from mcp_app.models import Tally

VIEW: Final = "mcp_app.view_tally"


def shown(site: AdminSite, tool: str) -> SafeString:
    """What is in flight, and the figures of each period. Five statements; raises django.db.Error."""
    found = statistics.of_tool(tool)
    context = {
        **now(site, tool),
        "rows": [(dashboard_filters.PERIODS[period], row(figures)) for period, figures in found.items()],
        "dashboard_url": dashboard_filters.url(site, tool) if site.is_registered(Tally) else "",
    }
    return render_to_string("admin/mcp_app/tool/statistics.html", context)


def now(site: AdminSite, tool: str) -> dict[str, Any]:
    """The part that keeps itself current, for its template. One statement; raises django.db.Error."""
    found = live_numbers.of_tool(tool)
    return {
        "now_url": reverse("admin:mcp_app_tool_now", args=(quote(tool),), current_app=site.name),
        "in_flight": [(status.value, status.label, count(total)) for status, total in found.by_status.items()],
        "to_stop": count(found.to_stop),
    }
