"""The admin's pages of cancellations: the audit to be read, filtered and taken away as CSV.

Refuses every change, whoever asks.
"""

from collections.abc import Callable
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin import cancellation_export, cancellation_words
from mcp_app.admin.cancellation_filters import ActorFilter, BetweenFilter, ToolFilter, WithinFilter
from mcp_app.admin.formatting import NOTHING, duration, inert
from mcp_app.admin.read_only import ReadOnlyAdmin
from mcp_app.models import Cancellation, Request

LABEL_CHARS = 40
REASON_CHARS = 80


def _text(name: str, description: str, limit: int | None = None) -> Callable[[Cancellation], str]:
    """A column of a text that came from outside."""

    @admin.display(description=description)
    def shown(row: Cancellation) -> str:
        return inert(getattr(row, name), limit) or NOTHING

    shown.__name__ = f"shown_{name}"
    return shown


def _moment(name: str) -> Callable[[Cancellation], str]:
    """A column of a time, to the second: an audit is compared with logs."""

    @admin.display(description=name.replace("_", " "), ordering=name)
    def shown(row: Cancellation) -> str:
        value = getattr(row, name)
        return NOTHING if value is None else cancellation_words.moment(value)

    shown.__name__ = f"shown_{name}"
    return shown


@admin.register(Cancellation)
class CancellationAdmin(ReadOnlyAdmin):
    list_display = (
        "asked_at",
        "shown_tool",
        "cause",
        "shown_actor",
        "shown_reason",
        "outcome",
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
    list_filter = (WithinFilter, BetweenFilter, "cause", "outcome", "stage", ActorFilter, ToolFilter)
    show_facets = admin.ShowFacets.NEVER  # they would count the whole table for every choice
    sortable_by = ("asked_at",)
    search_fields = ("reason", "actor", "principal_label", "requested_id")
    search_help_text = "A request's id, or words of the reason, the actor or the caller."
    actions = ("export_selected",)
    empty_value_display = NOTHING
    fieldsets = (
        (None, {"fields": ("story", "request_link")}),
        ("Asked", {"fields": ("asked_at", "cause", "shown_actor", "reason_in_full")}),
        ("About", {"fields": ("shown_tool", "caller", "shown_issuer", "shown_subject", "shown_client_id", "client")}),
        ("What became of it", {"fields": ("outcome", "stage", "statuses", "ended_at", "latency", "sealed_at")}),
    )

    class Media:
        css = {"all": ("mcp_app/audit.css",)}

    asked_at = staticmethod(_moment("requested_at"))
    ended_at = staticmethod(_moment("stopped_at"))
    sealed_at = staticmethod(_moment("settled_at"))
    shown_tool = staticmethod(_text("tool", "tool"))
    shown_issuer = staticmethod(_text("issuer", "issuer"))
    shown_subject = staticmethod(_text("subject", "subject"))
    shown_client_id = staticmethod(_text("client_id", "client id"))
    caller = staticmethod(_text("principal_label", "caller", LABEL_CHARS))
    client = staticmethod(_text("client_name", "client", LABEL_CHARS))
    shown_reason = staticmethod(_text("reason", "reason", REASON_CHARS))
    reason_in_full = staticmethod(_text("reason", "reason"))

    def get_urls(self) -> list[URLPattern]:
        export = self.admin_site.admin_view(self.export_view)
        return [path("export/", export, name="mcp_app_cancellation_export"), *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cancellation]:
        """With `has_request`: whether the request is still there, and this user may see it."""
        rows: QuerySet[Cancellation] = super().get_queryset(request)
        if not request.user.has_perm("mcp_app.view_request"):
            return rows.annotate(has_request=Value(False))
        return rows.annotate(has_request=Exists(Request.objects.filter(pk=OuterRef("request_id"))))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Cancellation], search_term: str
    ) -> tuple[QuerySet[Cancellation], bool]:
        """A request's id exactly; otherwise each word in the reason, the actor, the caller or an unknown id."""
        term = search_term.strip()
        if (request_id := _uuid(term)) is not None:
            return queryset.filter(Q(request_id=request_id) | Q(requested_id=term)), False
        return super().get_search_results(request, queryset, search_term)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """What the list shows under the same query, all its pages, as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            queryset = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(reverse("admin:mcp_app_cancellation_changelist") + "?e=1")
        return cancellation_export.response(request, queryset)

    @admin.action(permissions=["view"], description="Export selected cancellations as CSV")
    def export_selected(self, request: HttpRequest, queryset: QuerySet[Cancellation]) -> HttpResponseBase:
        return cancellation_export.response(request, queryset)

    @admin.display(description="actor", ordering="actor")
    def shown_actor(self, row: Cancellation) -> SafeString:
        """The actor, and everything else that they asked for."""
        address = f" ({inert(row.actor_address)})" if row.actor_address else ""
        return format_html(
            '<a href="{}?{}">{}</a>{}',
            reverse("admin:mcp_app_cancellation_changelist"),
            urlencode({"actor": row.actor}),
            inert(row.actor, LABEL_CHARS),
            address,
        )

    @admin.display(description="status before → after")
    def statuses(self, row: Cancellation) -> str:
        if not row.status_before:
            return NOTHING
        after = row.get_status_after_display() if row.status_after else "…"
        return f"{row.get_status_before_display()} → {after}"

    @admin.display(description="latency")
    def latency(self, row: Cancellation) -> str:
        return NOTHING if row.latency_ms is None else duration(row.latency_ms / 1000)

    @admin.display(description="request")
    def request_link(self, row: Cancellation) -> str | SafeString:
        shown = cancellation_words.target(row) or NOTHING
        if not getattr(row, "has_request", False):
            return shown
        return format_html('<a href="{}">{}</a>', reverse("admin:mcp_app_request_change", args=[row.request_id]), shown)

    @admin.display(description="what happened")
    def story(self, row: Cancellation) -> SafeString:
        sentences = ((sentence,) for sentence in cancellation_words.story(row))
        return format_html('<div class="mcp-story">{}</div>', format_html_join("", "<p>{}</p>", sentences))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
