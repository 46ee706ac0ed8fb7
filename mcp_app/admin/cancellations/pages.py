"""The admin's pages of cancellations: read, filter and export the audit. Nobody can change it here."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.cancellations import export as cancellation_export
from mcp_app.admin.cancellations.filters import ActorFilter, AuditedToolFilter, WithinFilter
from mcp_app.admin.lists.formatting import badge
from mcp_app.admin.lists.read_only import ReadOnlyAdmin
from mcp_app.admin.lists.typed_filters import BetweenFilter
from mcp_app.admin.requests.request_columns import NAME_CHARS, named, text, text_column
from mcp_app.admin.requests.request_lists import VIEW as VIEW_REQUEST
from mcp_app.admin.requests.request_lists import newest, page_url
from mcp_app.models import Cancellation, Request
from mcp_app.presentation.cancellation_story import describe_attempt
from mcp_app.presentation.formatting import NOTHING, duration, moment
from mcp_app.safe_text import safe_text
from mcp_app.states import Outcome

COLUMN_CHARS = 255
REASON_CHARS = 1024
"""What the columns hold: a page shows it all."""


def _moment(name: str, description: str) -> Any:
    """Return a column that shows a time to the second, so that the audit can be compared with logs."""

    @admin.display(description=description, ordering=name)
    def shown(row: Cancellation) -> str:
        return moment(getattr(row, name))

    return staticmethod(named(shown, name))


@admin.register(Cancellation)
class CancellationAdmin(ReadOnlyAdmin):
    list_display = (
        "asked_at",
        "shown_tool",
        "cause",
        "shown_actor",
        "shown_reason",
        "became",
        "stage",
        "latency",
        "statuses",
        "ended_at",
        "caller",
        "client",
        "request_link",
    )
    list_per_page = 50
    list_max_show_all = 50
    list_filter = (WithinFilter, BetweenFilter, "cause", "outcome", "stage", ActorFilter, AuditedToolFilter)
    show_facets = admin.ShowFacets.NEVER  # they would count the whole table for every choice
    sortable_by = ("asked_at",)
    listed_at = "requested_at"
    search_fields = ("reason", "actor", "principal_label", "requested_id")
    search_help_text = (
        "A request's id; or words of the reason, the actor or the caller, "
        "among the newest 10,000 that the filters leave."
    )
    actions = ("export_selected",)
    empty_value_display = NOTHING
    fieldsets = (
        (None, {"fields": ("story", "request_link")}),
        ("Asked", {"fields": ("asked_at", "cause", "shown_actor", "reason_in_full", "shown_part_of")}),
        (
            "About",
            {
                "fields": (
                    "shown_tool",
                    "shown_endpoint",
                    "caller",
                    "shown_issuer",
                    "shown_subject",
                    "shown_client_id",
                    "client",
                )
            },
        ),
        ("Outcome", {"fields": ("became", "stage", "statuses", "ended_at", "latency", "settled", "place")}),
    )

    class Media:
        css = {"all": ("mcp_app/admin.css", "mcp_app/audit.css")}

    asked_at = _moment("requested_at", "requested at")
    ended_at = _moment("stopped_at", "stopped at")
    settled = _moment("settled_at", "settled at")
    shown_tool = text_column("tool", "tool")
    shown_endpoint = text_column("endpoint", "endpoint")
    shown_issuer = text_column("issuer", "issuer", COLUMN_CHARS)
    shown_subject = text_column("subject", "subject", COLUMN_CHARS)
    shown_client_id = text_column("client_id", "client id", COLUMN_CHARS)
    caller = text_column("principal_label", "caller", NAME_CHARS)
    client = text_column("client_name", "client", NAME_CHARS)
    shown_reason = text_column("reason", "reason")
    reason_in_full = text_column("reason", "reason", REASON_CHARS)
    shown_part_of = text_column("part_of", "part of", COLUMN_CHARS)

    def get_urls(self) -> list[URLPattern]:
        export = self.admin_site.admin_view(self.export_view)
        return [path("export/", export, name="mcp_app_cancellation_export"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "Cancellations", **(extra_context or {})})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cancellation]:
        """Add `has_request`: whether the request still exists and this user may see it."""
        rows: QuerySet[Cancellation] = super().get_queryset(request)
        if not request.user.has_perm(VIEW_REQUEST):
            return rows.annotate(has_request=Value(False))
        return rows.annotate(has_request=Exists(Request.objects.filter(pk=OuterRef("request_id"))))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Cancellation], search_term: str
    ) -> tuple[QuerySet[Cancellation], bool]:
        """Find a request by its exact id, or each word in the reason, the actor, the caller or an unknown id."""
        term = search_term.strip()
        if (request_id := _uuid(term)) is not None:
            return queryset.filter(Q(request_id=request_id) | Q(requested_id=term)), False
        among = newest(queryset, self.listed_at) if term else queryset
        return super().get_search_results(request, among, search_term)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return all pages of the list under the same query as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            queryset = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self._list_url()}?e=1")
        return cancellation_export.response(request, queryset)

    @admin.action(permissions=["view"], description="Export selected cancellations as CSV")
    def export_selected(self, request: HttpRequest, queryset: QuerySet[Cancellation]) -> HttpResponseBase:
        return cancellation_export.response(request, queryset)

    @admin.display(description="actor")
    def shown_actor(self, row: Cancellation) -> SafeString:
        """Return the actor, as a link to all cancellations that they requested."""
        address = f" ({safe_text(row.actor_address)})" if row.actor_address else ""
        query = urlencode({"actor": row.actor})
        return format_html('<a href="{}?{}">{}</a>{}', self._list_url(), query, text(row.actor, NAME_CHARS), address)

    @admin.display(description="outcome")
    def became(self, row: Cancellation) -> SafeString:
        return badge(row.outcome, Outcome(row.outcome).label)

    @admin.display(description="status before → after")
    def statuses(self, row: Cancellation) -> str:
        if not row.status_before:
            return NOTHING
        after = row.get_status_after_display() if row.status_after else "…"
        return f"{row.get_status_before_display()} → {after}"

    @admin.display(description="latency")
    def latency(self, row: Cancellation) -> str:
        return NOTHING if row.latency_ms is None else duration(row.latency_ms / 1000)

    @admin.display(description="sealed")
    def place(self, row: Cancellation) -> str:
        return "not yet" if row.sealed_on is None else f"{row.sealed_on}, number {row.seal_number}"

    @admin.display(description="request")
    def request_link(self, row: Cancellation) -> SafeString:
        if row.request_id is None:
            return text(row.requested_id)
        if not getattr(row, "has_request", False):
            return text(row.request_id)
        return format_html('<a href="{}">{}</a>', page_url(self.admin_site, row.request_id), row.request_id)

    @admin.display(description="what happened")
    def story(self, row: Cancellation) -> SafeString:
        return format_html('<bdi class="mcp-text">{}</bdi>', describe_attempt(row).words)

    def _list_url(self) -> str:
        return reverse("admin:mcp_app_cancellation_changelist", current_app=self.admin_site.name)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
