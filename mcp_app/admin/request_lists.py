"""What every list of requests has in common: bounded queries, filters, search and the way to a request's page.

Refuses look-ups that no filter offers: a list must not become an oracle about payloads its reader may not see.
"""

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Concat, Left
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.read_only import ReadOnlyAdmin
from mcp_app.admin.request_columns import NAME_CHARS, RequestColumns
from mcp_app.admin.typed_filters import BetweenFilter
from mcp_app.conf import settings
from mcp_app.models import Request, Tool
from mcp_app.states import OPEN, Status

VIEW = "mcp_app.view_request"
VIEW_PAYLOAD = "mcp_app.view_request_payload"
CANCEL = "mcp_app.cancel_request"

SEARCHED = 10_000
"""Rows that a search for text looks through, as `search_help_text` says: it reads each of them."""
MAX_TOOLS = 500
_SPANS = 5
"""Any date, today, 7 days, this month, this year: without those for rows that have none."""

_LISTED = (
    "status", "tool", "worker", "principal_label", "submitted_at", "finished_at", "progress", "progress_total",
    "progress_message", "cancel_requested_at", "cancel_cause", "cancel_actor", "cancel_reason", "cancel_policy",
    "stage", "error",
)  # fmt: skip


def page_url(site: admin.AdminSite, request_id: UUID, page: str = "change") -> str:
    """Where one request is shown, or (`state`, `cancel`) watched and cancelled."""
    return reverse(f"admin:mcp_app_request_{page}", args=(request_id,), current_app=site.name)


class RequestList(ChangeList):
    """A list whose rows all lead to the one page of a request: a row may leave its list while it is looked at."""

    def url_for_result(self, result: Any) -> str:
        return page_url(self.model_admin.admin_site, result.pk)


class ToolFilter(admin.SimpleListFilter):
    """By tool; the choices are the tools' rows, not what 100,000 requests name."""

    title = _("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in Tool.objects.values_list("name", flat=True)[:MAX_TOOLS]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        if (name := self.value()) is None:
            return queryset
        return queryset.none() if "\0" in name else queryset.filter(tool=name)  # which PostgreSQL takes no text with


class EndpointFilter(admin.SimpleListFilter):
    """By endpoint, where the site has several."""

    title = _("endpoint")
    parameter_name = "endpoint"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in settings.ENDPOINTS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.filter(endpoint=self.value())


class PartToolFilter(ToolFilter):
    """By tool, in a list of a part of all requests, which has an index: SQLite would look through all of the tool's."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.alias(of=_unindexed("tool")).filter(of=self.value())


class PartEndpointFilter(EndpointFilter):
    """The same by endpoint."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.alias(at=_unindexed("endpoint")).filter(at=self.value())


class PartStatusFilter(admin.SimpleListFilter):
    """The same by status."""

    title = _("status")
    parameter_name = "status__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(status.value, str(status.label)) for status in Status]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.alias(now=_unindexed("status")).filter(now=self.value())


def _unindexed(column: str) -> Concat:
    return Concat(column, Value(""))


class OpenStatusFilter(admin.SimpleListFilter):
    """By those statuses that a request in flight can have."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(status.value, str(status.label)) for status in Status if status in OPEN]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.filter(status=self.value())


class DateFilter(admin.DateFieldListFilter):
    """By a time that every row of the list has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.links = self.links[:_SPANS]


class RequestListAdmin(RequestColumns, ReadOnlyAdmin):
    """Base of the lists; the permissions are those of `Request`, also for its proxies."""

    list_per_page = 50
    list_max_show_all = 50
    list_display: Any = ("state", "called", "done", "took", "caller", "client", "submitted", "said")
    list_display_links = ("called",)
    list_filter: ClassVar[Any] = ("status", ToolFilter, EndpointFilter, ("submitted_at", DateFilter), BetweenFilter)
    listed_at = "submitted_at"
    """The time that orders the list; an index has it."""
    filtered_fields = frozenset({"status", "tool", "endpoint", "submitted_at", "from", "to"})
    sortable_by: ClassVar[Any] = ("submitted",)
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("principal_label", "cancel_actor", "cancel_reason")
    search_help_text = _(
        "A request's id; or a part of a caller, an actor or a reason, among the newest 10,000 that the filters leave."
    )

    class Media:
        css = {"all": ("mcp_app/admin.css", "mcp_app/audit.css")}

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(VIEW))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and bool(request.user.has_perm(CANCEL))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RequestList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        shown = request.user.has_perm(VIEW_PAYLOAD)
        return [column for column in self.list_display if shown or column != "said"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Request]:
        """The listed columns only: arguments and results may be megabytes each, and so may what a client is called."""
        rows: QuerySet[Request] = super().get_queryset(request).only(*_LISTED)
        return rows.annotate(
            client_name=Left(KeyTextTransform("name", "client_info"), NAME_CHARS),
            client_version=Left(KeyTextTransform("version", "client_info"), NAME_CHARS),
        )

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        return lookup.split("__")[0] in self.filtered_fields

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        try:
            return queryset.filter(pk=UUID(search_term.strip())), False
        except ValueError:
            among = newest(queryset, self.listed_at) if search_term else queryset
            return super().get_search_results(request, among, search_term)


def newest(rows: QuerySet[Any], listed_at: str) -> QuerySet[Any]:
    """The `SEARCHED` newest of these, by a column that an index has."""
    times = rows.order_by(f"-{listed_at}").values_list(listed_at, flat=True)
    oldest = times[SEARCHED : SEARCHED + 1]
    return rows.filter(**{f"{listed_at}__gt": oldest[0]}) if oldest else rows
