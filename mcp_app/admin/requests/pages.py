"""The admin's pages of requests: lists of all, in-flight and cancelled requests, and a page for each request."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.lists import live_lists
from mcp_app.admin.lists.live_lists import LiveListAdmin
from mcp_app.admin.lists.typed_filters import BetweenFilter
from mcp_app.admin.requests import cancelling, group_cancelling, in_flight, request_page
from mcp_app.admin.requests.request_lists import (
    VIEW_PAYLOAD,
    DateFilter,
    OpenStatusFilter,
    PartEndpointFilter,
    PartStatusFilter,
    PartToolFilter,
    RequestListAdmin,
    page_url,
)
from mcp_app.models import CancelledRequest, InFlightRequest, Request
from mcp_app.states import OPEN


class CancellingListAdmin(RequestListAdmin):
    """A list with the action `Cancel selected…`, which shows a page that asks for a reason and posts to `cancel/`."""

    actions: Any = ("cancel_selected",)

    @admin.action(description=_("Cancel selected…"), permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Request]) -> HttpResponse:
        return cancelling.confirm(self, request, queryset)

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_cancel_selected"
        ours = [path("cancel/", self.admin_site.admin_view(self.cancel_selected_view), name=name)]
        return [*ours, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if "cancel_selected" in request.POST.getlist("action") and not self.has_cancel_permission(request):
            cancelling.deny(request, request.POST.getlist(ACTION_CHECKBOX_NAME))
        return super().changelist_view(request, extra_context)

    def cancel_selected_view(self, request: HttpRequest) -> HttpResponse:
        """Cancel the posted requests, and redirect to the list with its query."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_cancel_permission(request):
            cancelling.deny(request, cancelling.posted_ids(request))
        cancelling.cancel(request, cancelling.posted_ids(request))
        changelist = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        url = reverse(changelist, current_app=self.admin_site.name)
        return HttpResponseRedirect(f"{url}?{request.POST.get('filters', '')}".rstrip("?"))


@admin.register(Request)
class RequestAdmin(CancellingListAdmin):
    """The list of all requests, and the page of each. Both are read-only, except for the form that cancels."""

    class Media:
        js = ("mcp_app/live.js",)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        ours = [
            path("<uuid:request_id>/state/", wrap(self.state_view), name="mcp_app_request_state"),
            path("<uuid:request_id>/cancel/", wrap(self.cancel_view), name="mcp_app_request_cancel"),
            path(
                "<uuid:request_id>/cancel-all/<str:kind>/",
                wrap(self.cancel_all_view),
                name="mcp_app_request_cancel_all",
            ),
        ]
        return [*ours, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the request's page."""
        row = self._row(request, object_id)
        context = {
            **self.admin_site.each_context(request),
            **self._shown(request, row),
            "title": "Request",
            "opts": self.opts,
            "media": self.media,
            "may_cancel": self.has_cancel_permission(request),
            "cancel_url": page_url(self.admin_site, row.pk, "cancel"),
            "reason_chars": cancelling.max_reason_chars(),
            "what_a_stop_means": request_page.what_a_stop_means(row),
            "cancel_all": [
                (group_cancelling.TITLES[kind], group_cancelling.url(self.admin_site, row.pk, kind))
                for kind in group_cancelling.kinds(row)
            ],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/mcp_app/request_page.html", context)

    def state_view(self, request: HttpRequest, request_id: UUID) -> HttpResponse:
        """Return only the part of the page that changes."""
        row = self._row(request, request_id)
        return TemplateResponse(request, "admin/mcp_app/request_live.html", self._shown(request, row))

    def cancel_view(self, request: HttpRequest, request_id: UUID) -> HttpResponse:
        """Cancel one request, and redirect to its page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_cancel_permission(request):
            cancelling.deny(request, [request_id])
        cancelling.cancel(request, [request_id])
        return HttpResponseRedirect(page_url(self.admin_site, request_id))

    def cancel_all_view(self, request: HttpRequest, request_id: UUID, kind: str) -> HttpResponse:
        """Ask for a reason, then cancel a group of requests and redirect to the list in flight."""
        if not self.has_cancel_permission(request):
            group_cancelling.deny(request, request_id, kind)
        row = self._row(request, request_id)
        if request.method != "POST":
            return group_cancelling.confirm(self, request, row, kind)
        group_cancelling.cancel(request, row, kind)
        return HttpResponseRedirect(
            reverse("admin:mcp_app_inflightrequest_changelist", current_app=self.admin_site.name)
        )

    def _row(self, request: HttpRequest, object_id: str | UUID) -> Request:
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        payload = () if request.user.has_perm(VIEW_PAYLOAD) else ("arguments", "result", "partial_result", "error")
        try:
            return Request.objects.defer("unredacted", *payload).get(pk=UUID(str(object_id)))
        except (ValueError, Request.DoesNotExist):
            raise Http404("There is no such request.") from None

    def _shown(self, request: HttpRequest, row: Request) -> dict[str, Any]:
        state = page_url(self.admin_site, row.pk, "state")
        payload = request.user.has_perm(VIEW_PAYLOAD)
        return {"state_url": state, **request_page.shown(request, self.admin_site, row, payload=payload)}


class SomeRequestsAdmin(CancellingListAdmin):
    """Base class of lists of some requests. A request's page is that of `RequestAdmin`."""

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            return HttpResponseRedirect(page_url(self.admin_site, UUID(object_id)))
        except ValueError:
            raise Http404("There is no such request.") from None


@admin.register(InFlightRequest)
class InFlightRequestAdmin(LiveListAdmin, SomeRequestsAdmin):
    """Requests that have not ended, in a list that updates itself."""

    nothing = "Nothing is in flight."

    class Media:
        js = live_lists.SCRIPTS

    list_filter = (OpenStatusFilter, PartToolFilter, PartEndpointFilter, ("submitted_at", DateFilter))
    list_display = ("state", "called", "done", "said", "took", "whereabouts", "caller", "client", "submitted")
    actions = ("cancel_selected", "cancel_all_of_caller", "cancel_all_of_tool", "cancel_all_of_session")

    @admin.action(description=_("Cancel all requests of the same caller…"), permissions=["cancel"])
    def cancel_all_of_caller(self, request: HttpRequest, queryset: QuerySet[Request]) -> HttpResponse | None:
        return self._cancel_all(request, queryset, "caller")

    @admin.action(description=_("Cancel all requests of the same tool…"), permissions=["cancel"])
    def cancel_all_of_tool(self, request: HttpRequest, queryset: QuerySet[Request]) -> HttpResponse | None:
        return self._cancel_all(request, queryset, "tool")

    @admin.action(description=_("Cancel all requests of the same session…"), permissions=["cancel"])
    def cancel_all_of_session(self, request: HttpRequest, queryset: QuerySet[Request]) -> HttpResponse | None:
        return self._cancel_all(request, queryset, "session")

    def _cancel_all(self, request: HttpRequest, queryset: QuerySet[Request], kind: str) -> HttpResponse | None:
        """To the page that asks for a reason; back to the list where it is not clear whose are meant."""
        chosen = queryset.values_list("pk", flat=True)[:2]
        row = Request.objects.defer(*group_cancelling.PAYLOAD).get(pk=chosen[0]) if len(chosen) == 1 else None
        if row is None or kind not in group_cancelling.kinds(row):
            messages.warning(
                request, f"Choose one request that has a {kind}; it selects all others with the same value."
            )
            return None
        return HttpResponseRedirect(group_cancelling.url(self.admin_site, row.pk, kind))

    def add_left(self, request: HttpRequest, listed: Any, shown: Collection[UUID]) -> None:
        listed.add_left(request, shown)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return in_flight.InFlightList

    def of_all(self, request: HttpRequest) -> QuerySet[Request]:
        """As the list has them, whether they have ended or not."""
        return super().get_queryset(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Request]:
        return self.of_all(request).filter(status__in=sorted(OPEN))


@admin.register(CancelledRequest)
class CancelledRequestAdmin(SomeRequestsAdmin):
    """Requests whose cancellation was requested, whatever their outcome."""

    ordering = ("-cancel_requested_at",)
    listed_at = "cancel_requested_at"
    list_display = (
        "state", "called", "cause", "actor", "reason", "asked", "stopped_after", "reached", "caller", "client", "done",
    )  # fmt: skip
    list_filter = (
        *(("cancel_requested_at", DateFilter), BetweenFilter),
        *("cancel_cause", "stage", PartStatusFilter, PartToolFilter, PartEndpointFilter),
    )
    sortable_by = ("asked",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Request]:
        return super().get_queryset(request).filter(cancel_requested_at__isnull=False)
