"""The dashboard, which is the admin's page of tallies: the site's current load, and statistics of ended calls.

It checks who may see it. Tallies have no other page: no user adds, changes or reads a single one.
"""

from typing import Any, Final

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from mcp_app.admin.dashboard import plots
from mcp_app.admin.dashboard.filters import PERIODS, asked, periods, query, tools
from mcp_app.admin.dashboard.numbers import count, row
from mcp_app.admin.lists.read_only import ReadOnlyAdmin
from mcp_app.admin.requests.request_columns import NAME_CHARS, text
from mcp_app.admin.requests.request_lists import VIEW as VIEW_REQUEST
from mcp_app.conf import settings
from mcp_app.lifecycle.statistics import live_numbers, queries
from mcp_app.lifecycle.statistics.queries import Period
from mcp_app.models import InFlightRequest, Tally
from mcp_app.presentation.formatting import duration
from mcp_app.safe_text import safe_text
from mcp_app.states import ProcessRole

SHOWN_TOOLS: Final = 50
LATE: Final = 5.0
"""Seconds beyond two rounds of supervision after which counting counts as behind."""


@admin.register(Tally)
class TallyAdmin(ReadOnlyAdmin):
    """The dashboard, and its two parts that update themselves."""

    @property
    def media(self) -> forms.Media:
        names = ["mcp_app/live.js", *([plots.CHARTS_SCRIPT, "mcp_app/plots.js"] if plots.installed() else [])]
        scripts: list[Any] = [forms.Script(name, defer=True) for name in names]
        return forms.Media(css={"all": ("mcp_app/admin.css", "mcp_app/dashboard.css")}, js=scripts)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("", wrap(self.changelist_view), name="mcp_app_tally_changelist"),
            path("live/", wrap(self.live_view), name="mcp_app_tally_live"),
            path("statistics/", wrap(self.statistics_view), name="mcp_app_tally_statistics"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Return the whole page. An unknown period redirects to the page without it, as in Django's lists."""
        self._admit(request)
        period, tool = asked(request)
        if period is None:
            return HttpResponseRedirect(f"{request.path}?e=1")
        context = {
            **self.admin_site.each_context(request),
            **self._live(request),
            **self._statistics(period, tool),
            "title": "Activity",
            "opts": self.opts,
            "media": self.media,
            "filters": [("period", periods(period, tool)), ("tool", tools(period, tool))],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/mcp_app/dashboard.html", context)

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Return only the part with the current load."""
        self._admit(request)
        return TemplateResponse(request, "admin/mcp_app/dashboard_live.html", self._live(request))

    def statistics_view(self, request: HttpRequest) -> HttpResponse:
        """Return only the part with the statistics of the period."""
        self._admit(request)
        period, tool = asked(request)
        context = self._statistics(period or Period.DAY, tool)
        return TemplateResponse(request, "admin/mcp_app/dashboard_statistics.html", context)

    def _admit(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name

    def _live(self, request: HttpRequest) -> dict[str, Any]:
        now = live_numbers.read()
        in_flight = ""
        if request.user.has_perm(VIEW_REQUEST) and self.admin_site.is_registered(InFlightRequest):
            in_flight = reverse("admin:mcp_app_inflightrequest_changelist", current_app=self.admin_site.name)
        return {
            "live_url": reverse("admin:mcp_app_tally_live", current_app=self.admin_site.name),
            "in_flight_url": in_flight,
            "in_flight": [(status.value, status.label, count(total)) for status, total in now.in_flight.items()],
            "to_stop": count(now.to_stop),
            "queues": [
                (safe_text(each.queue, NAME_CHARS), count(each.waiting), duration(each.oldest_seconds))
                for each in now.queues
            ],
            "workers": now.alive[ProcessRole.WORKER],
            "servers": now.alive[ProcessRole.SERVER],
            "behind": duration(now.lag) if now.lag > 2 * settings.SUPERVISION_INTERVAL + LATE else "",
        }

    def _statistics(self, period: Period, tool: str | None) -> dict[str, Any]:
        found = queries.read(period, tool)
        drawn = plots.plots(found, period)
        others = [] if tool else queries.read_by_tool(period)
        here = reverse("admin:mcp_app_tally_statistics", current_app=self.admin_site.name)
        return {
            "statistics_url": here + query(period, tool),
            "dashboard_url": reverse("admin:mcp_app_tally_changelist", current_app=self.admin_site.name),
            "period": PERIODS[period],
            "tool": safe_text(tool or "", NAME_CHARS),
            "charts": plots.installed(),
            "any": bool(found.whole.calls),
            "whole": row(found.whole),
            "plots": drawn,
            "drawn": {plot.name: plot.drawn for plot in drawn},
            "tools": [(query(period, name), text(name), row(each)) for name, each in others[:SHOWN_TOOLS]],
            "more_tools": max(0, len(others) - SHOWN_TOOLS),
        }
