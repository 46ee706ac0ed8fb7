"""What the dashboard is of: a period, and all tools or one. Both are in its address; each choice is a link.

Refuses to ask the tallies which tools there are: the tools' rows say so.
"""

from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from mcp_app.admin.request_columns import NAME_CHARS
from mcp_app.admin.request_lists import MAX_TOOLS
from mcp_app.lifecycle.inert import inert
from mcp_app.lifecycle.periods import Period
from mcp_app.models import Tool

PERIODS: Final = {Period.DAY: "Last 24 hours", Period.WEEK: "Last 7 days", Period.MONTH: "Last 30 days"}


def url(site: admin.AdminSite, tool: str) -> str:
    """The dashboard of one tool."""
    changelist = reverse("admin:mcp_app_tally_changelist", current_app=site.name)
    return f"{changelist}{query(Period.DAY, tool)}"


def asked(request: HttpRequest) -> tuple[Period | None, str | None]:
    """The period and the tool of the address; None for a period that there is not, and for all tools."""
    try:
        period = Period(request.GET.get("period", Period.DAY.value))
    except ValueError:
        period = None
    return period, request.GET.get("tool", "").replace("\0", "") or None


def query(period: Period, tool: str | None) -> str:
    chosen = {} if period is Period.DAY else {"period": period.value}
    return "?" + urlencode(chosen | ({} if tool is None else {"tool": tool}))


def periods(period: Period, tool: str | None) -> list[dict[str, Any]]:
    """The choices of a filter, as Django's own template for filters takes them."""
    return [
        {"selected": each is period, "query_string": query(each, tool), "display": name}
        for each, name in PERIODS.items()
    ]


def tools(period: Period, tool: str | None) -> list[dict[str, Any]]:
    """The same; the one that was asked for is a choice also when its row is gone: its tallies are not."""
    names: list[str | None] = [None, *Tool.objects.values_list("name", flat=True)[:MAX_TOOLS]]
    if tool not in names:
        names.append(tool)
    return [
        {
            "selected": name == tool,
            "query_string": query(period, name),
            "display": "All" if name is None else inert(name, NAME_CHARS),
        }
        for name in names
    ]
