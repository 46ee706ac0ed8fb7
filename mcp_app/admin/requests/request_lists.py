"""Base classes of the lists of requests: bounded queries, filters, search, and links to a request's page."""

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

from mcp_app.admin.lists.read_only import ReadOnlyAdmin
from mcp_app.admin.lists.typed_filters import BetweenFilter
from mcp_app.admin.requests.request_columns import NAME_CHARS, RequestColumns
from mcp_app.conf import settings
from mcp_app.models import Request, Tool
from mcp_app.safe_text import safe_text
from mcp_app.states import OPEN, Status

VIEW = "mcp_app.view_request"
VIEW_PAYLOAD = "mcp_app.view_request_payload"
CANCEL = "mcp_app.cancel_request"

SEARCHED = 10_000
"""The number of rows that a text search reads."""
MAX_TOOLS = 500
_SPANS = 5
"""The choices for dates, without those for rows that have none."""

FETCHED = (
    "status", "tool", "worker", "principal_label", "submitted_at", "finished_at", "progress", "progress_total",
    "progress_message", "cancel_requested_at", "cancel_cause", "cancel_actor", "cancel_reason", "cancel_policy",
    "stage", "error",
)  # fmt: skip
"""The fields that the columns read. A column that reads another one costs a query for each row."""


def page_url(site: admin.AdminSite, request_id: UUID, page: str = "change") -> str:
    """Return the URL of a request's page, or of its `state` or `cancel` view."""
    return reverse(f"admin:mcp_app_request_{page}", args=(request_id,), current_app=site.name)


class RequestList(ChangeList):
    """A list whose rows all link to the one page of a request, because a row may leave its list while it is shown."""

    def url_for_result(self, result: Any) -> str:
        return page_url(self.model_admin.admin_site, result.pk)


class ToolFilter(admin.SimpleListFilter):
    """By tool. The choices come from the rows of tools, because the requests may be 100,000."""

    title = _("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, safe_text(name)) for name in Tool.objects.values_list("name", flat=True)[:MAX_TOOLS]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        if (name := self.value()) is None:
            return queryset
        return queryset.none() if "\0" in name else queryset.filter(tool=name)  # PostgreSQL accepts no text with NUL


class EndpointFilter(admin.SimpleListFilter):
    """By endpoint, on a site with several."""

    title = _("endpoint")
    parameter_name = "endpoint"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in settings.ENDPOINTS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.filter(endpoint=self.value())


class PartToolFilter(ToolFilter):
    """By tool, in a list of open or of cancelled requests: the query uses the index of that list."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.alias(of=_unindexed("tool")).filter(of=self.value())


class PartEndpointFilter(EndpointFilter):
    """By endpoint, in a list of open or of cancelled requests: the query uses the index of that list."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.alias(at=_unindexed("endpoint")).filter(at=self.value())


class PartStatusFilter(admin.SimpleListFilter):
    """By status, in a list of open or of cancelled requests: the query uses the index of that list."""

    title = _("status")
    parameter_name = "status__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(status.value, str(status.label)) for status in Status]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Request]) -> QuerySet[Request]:
        return queryset if self.value() is None else queryset.alias(now=_unindexed("status")).filter(now=self.value())


def _unindexed(column: str) -> Concat:
    """Return an expression for a column that no index matches, because SQLite would prefer the column's index."""
    return Concat(column, Value(""))


class OpenStatusFilter(admin.SimpleListFilter):
    """By the statuses that a request in flight can have."""

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

    def expected_parameters(self) -> list[str | None]:
        return [self.lookup_kwarg_since, self.lookup_kwarg_until]


class RequestListAdmin(RequestColumns, ReadOnlyAdmin):
    """Base of the lists; the permissions are those of `Request`, also for its proxies."""

    list_per_page = 50
    list_max_show_all = 50
    list_display: Any = ("state", "called", "done", "took", "caller", "client", "submitted", "said")
    list_display_links = ("called",)
    list_filter: ClassVar[Any] = ("status", ToolFilter, EndpointFilter, ("submitted_at", DateFilter), BetweenFilter)
    listed_at = "submitted_at"
    """The time that orders the list; an index has it."""
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
        """Fetch only the listed columns, because arguments, results and client names may be megabytes each."""
        rows: QuerySet[Request] = super().get_queryset(request).only(*FETCHED)
        return rows.annotate(
            client_name=Left(KeyTextTransform("name", "client_info"), NAME_CHARS),
            client_version=Left(KeyTextTransform("version", "client_info"), NAME_CHARS),
        )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        try:
            return queryset.filter(pk=UUID(search_term.strip())), False
        except ValueError:
            among = newest(queryset, self.listed_at) if search_term else queryset
            return super().get_search_results(request, among, search_term)


def newest(rows: QuerySet[Any], listed_at: str) -> QuerySet[Any]:
    """Return the `SEARCHED` newest rows, by an indexed column."""
    times = rows.order_by(f"-{listed_at}").values_list(listed_at, flat=True)
    oldest = times[SEARCHED : SEARCHED + 1]
    return rows.filter(**{f"{listed_at}__gt": oldest[0]}) if oldest else rows
