"""The filters of the dashboard: a period, and all tools or one. Both are in its address.

The choices of tools come from the tools' rows and not from the tallies.
"""

from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from mcp_app.admin.requests.request_columns import NAME_CHARS
from mcp_app.admin.requests.request_lists import MAX_TOOLS
from mcp_app.lifecycle.statistics.queries import Period
from mcp_app.models import Tool
from mcp_app.safe_text import safe_text

PERIODS: Final = {Period.DAY: "Last 24 hours", Period.WEEK: "Last 7 days", Period.MONTH: "Last 30 days"}


def url(site: admin.AdminSite, tool: str) -> str:
    """Return the URL of the dashboard of one tool."""
    changelist = reverse("admin:mcp_app_tally_changelist", current_app=site.name)
    return f"{changelist}{query(Period.DAY, tool)}"


def asked(request: HttpRequest) -> tuple[Period | None, str | None]:
    """Return the period and the tool in the address: `None` for an unknown period, and for all tools."""
    try:
        period = Period(request.GET.get("period", Period.DAY.value))
    except ValueError:
        period = None
    return period, request.GET.get("tool", "").replace("\0", "") or None


def query(period: Period, tool: str | None) -> str:
    chosen = {} if period is Period.DAY else {"period": period.value}
    return "?" + urlencode(chosen | ({} if tool is None else {"tool": tool}))


def periods(period: Period, tool: str | None) -> list[dict[str, Any]]:
    """Return the choices of periods, in the form for Django's filter template."""
    return [
        {"selected": each is period, "query_string": query(each, tool), "display": name}
        for each, name in PERIODS.items()
    ]


def tools(period: Period, tool: str | None) -> list[dict[str, Any]]:
    """Return the choices of tools. The selected tool is one even if its row is deleted."""
    names: list[str | None] = [None, *Tool.objects.values_list("name", flat=True)[:MAX_TOOLS]]
    if tool not in names:
        names.append(tool)
    return [
        {
            "selected": name == tool,
            "query_string": query(period, name),
            "display": "All" if name is None else safe_text(name, NAME_CHARS),
        }
        for name in names
    ]
