"""Lists that update themselves: the page requests its rows again, with the same query.

The number of rows is limited, including rows that have left the list. Only users who may see the list get them.
"""

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

SCRIPTS: Final = ("admin/js/actions.js", "mcp_app/live.js", "mcp_app/live_actions.js")
"""The scripts of such a list. The last one wraps the first."""
SHOWN: Final = "shown"
"""The parameter with the rows that the page shows."""
MAX_SHOWN: Final = 100


class LiveListAdmin(admin.ModelAdmin):
    """A list that updates itself. Its rows have ids, and a row that leaves the list leaves the page."""

    change_list_template = "admin/mcp_app/live_list.html"
    nothing = ""
    """The message of an empty list."""

    def get_urls(self) -> list[URLPattern]:
        live = self.admin_site.admin_view(self.live_view)
        return [path("live/", live, name=f"mcp_app_{self.opts.model_name}_live"), *super().get_urls()]

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Return the part of the list that changes."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        shown = _pop_shown(request)
        request.current_app = self.admin_site.name
        try:
            listed: Any = self.get_changelist_instance(request)
        except IncorrectLookupParameters:
            raise Http404("This page of the list no longer exists.") from None
        self.add_left(request, listed, shown)
        listed.formset = None
        return TemplateResponse(request, "admin/mcp_app/live.html", {"cl": listed, "opts": self.opts})

    def add_left(self, request: HttpRequest, listed: Any, shown: Collection[UUID]) -> None:
        """Add rows that the page shows and that have left the list, if they should stay visible."""


class LiveList(ChangeList):
    """A page of such a list. `live_url` is the URL from which it updates itself."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list: Any = list(self.result_list)
        page = {PAGE_VAR: self.page_num} if self.page_num > 1 else {}
        name = f"admin:mcp_app_{self.model_admin.opts.model_name}_live"
        live = reverse(name, current_app=self.model_admin.admin_site.name)
        self.live_url = f"{live}{self.get_query_string(page)}".rstrip("?")


def _pop_shown(request: HttpRequest) -> list[UUID]:
    """Return the rows that the page shows, and remove them from the query, which otherwise has filters only."""
    query = request.GET.copy()
    named = ",".join(query.pop(SHOWN, [])).split(",")[:MAX_SHOWN]
    request.GET = query  # type: ignore[assignment]  # a copy of its own kind
    return [found for each in named if (found := _uuid(each)) is not None]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
