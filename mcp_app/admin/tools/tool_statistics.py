"""Statistics for a tool's page: calls in flight, numbers of ended calls, and the link to the dashboard."""

from typing import Any, Final

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from mcp_app.admin.dashboard import filters
from mcp_app.admin.dashboard.numbers import count, row
from mcp_app.lifecycle.statistics import live_numbers, queries
from mcp_app.models import Tally

VIEW: Final = "mcp_app.view_tally"


def shown(site: AdminSite, tool: str) -> SafeString:
    """Return the calls in flight and the numbers of each period. Five queries. Raises django.db.Error."""
    found = queries.read_for_tool(tool)
    context = {
        **now(site, tool),
        "rows": [(filters.PERIODS[period], row(figures)) for period, figures in found.items()],
        "dashboard_url": filters.url(site, tool) if site.is_registered(Tally) else "",
    }
    return render_to_string("admin/mcp_app/tool/statistics.html", context)


def now(site: AdminSite, tool: str) -> dict[str, Any]:
    """Return the context of the part that updates itself. One query. Raises django.db.Error."""
    found = live_numbers.read_for_tool(tool)
    return {
        "now_url": reverse("admin:mcp_app_tool_now", args=(quote(tool),), current_app=site.name),
        "in_flight": [(status.value, status.label, count(total)) for status, total in found.by_status.items()],
        "to_stop": count(found.to_stop),
    }
