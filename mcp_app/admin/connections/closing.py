"""Base classes for lists of connections that can be closed.

A connection is closed only by a POST of a user with the permission, after a page that asks for confirmation.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.lists import live_lists
from mcp_app.admin.lists.formatting import badge
from mcp_app.admin.lists.live_lists import LiveList, LiveListAdmin
from mcp_app.admin.lists.read_only import ReadOnlyAdmin
from mcp_app.admin.requests.cancelling import max_reason_chars, posted_ids
from mcp_app.admin.requests.request_columns import NAME_CHARS, text
from mcp_app.admin.requests.request_lists import EndpointFilter, newest
from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import vital_signs
from mcp_app.lifecycle.liveness.vital_signs import ProcessSigns
from mcp_app.presentation.facts import describe_heartbeat
from mcp_app.presentation.formatting import NOTHING, moment
from mcp_app.safe_text import safe_text

MAX_AT_ONCE: Final = 1_000
SHOWN: Final = 100


class SignedList(LiveList):
    """A page of connections with the vital signs of their processes, which take one query for the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        model_admin: Any = self.model_admin
        rows, column = self.result_list, model_admin.server_column
        found = vital_signs.of_processes({boot_id for row in rows if (boot_id := getattr(row, column))})
        for row in rows:
            row.signs = found.get(getattr(row, column))


class ClosingAdmin(LiveListAdmin, ReadOnlyAdmin):
    """Base class of the lists of connections. A row has the columns of a principal, and `principal_label`."""

    list_per_page = 50
    list_max_show_all = 50
    show_facets = admin.ShowFacets.NEVER
    actions: Any = ("close_selected",)
    list_filter: ClassVar[Any] = (EndpointFilter,)
    search_fields = ("principal_label",)
    search_help_text = _("A part of a caller, among the newest 10,000 that the filters leave.")
    listed_at = ""
    """The time that orders the list; an index has it."""
    change_form_template = "admin/mcp_app/connection_page.html"
    what_closing_does = ""
    """For who is about to close one."""
    asks_why = False
    """Whether a reason is kept."""
    server_column = "server"
    """The boot id of the process that holds it."""

    class Media:
        css = {"all": ("mcp_app/admin.css",)}
        js = live_lists.SCRIPTS

    @abstractmethod
    def close_rows(self, request: HttpRequest, ids: Sequence[UUID], reason: str) -> str:
        """Close the connections in the user's name. Return the message for the user. Raises django.db.Error."""

    def audit_denial(self, request: HttpRequest, ids: Sequence[UUID]) -> None:
        """Record an attempt without the permission in the audit. The default does nothing; every attempt is logged."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(f"mcp_app.view_{self.opts.model_name}"))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_close_permission(self, request: HttpRequest) -> bool:
        may_close = request.user.has_perm(f"mcp_app.close_{self.opts.model_name}")
        return self.has_view_permission(request) and bool(may_close)

    @admin.action(description=_("Close selected…"), permissions=["close"])
    def close_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse:
        return self._confirm(request, queryset)

    def get_urls(self) -> list[URLPattern]:
        name, wrap = f"mcp_app_{self.opts.model_name}_close", self.admin_site.admin_view
        ours = [
            path("close/", wrap(self.close_view), name=f"{name}_selected"),
            path("<uuid:row_id>/close/", wrap(self.close_one_view), name=name),
        ]
        return [*ours, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SignedList

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return [column for column in self.list_display if settings.ENDPOINTS or column != "endpoint_name"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        among = newest(queryset, self.listed_at) if search_term else queryset
        return super().get_search_results(request, among, search_term)

    def close_view(self, request: HttpRequest) -> HttpResponse:
        """Close the posted connections, and redirect to the list."""
        ids = [UUID(each) for each in dict.fromkeys(posted_ids(request)) if _is_uuid(each)][:MAX_AT_ONCE]
        if not self.has_close_permission(request):
            self.audit_denial(request, ids)
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            self.message_user(request, self.close_rows(request, ids, request.POST.get("reason", "")))
        except DatabaseError:
            self.message_user(
                request, "The database is busy or cannot be reached. Try again in a moment.", messages.ERROR
            )
        return HttpResponseRedirect(self._list_url())

    def close_one_view(self, request: HttpRequest, row_id: UUID) -> HttpResponse:
        """Ask for confirmation before a connection is closed."""
        if not self.has_close_permission(request):
            raise PermissionDenied
        return self._confirm(request, self.get_queryset(request).filter(pk=row_id))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        obj: Any = kwargs.get("obj")
        if obj is not None and self.has_close_permission(request):
            name = f"admin:mcp_app_{self.opts.model_name}_close"
            context["close_url"] = reverse(name, args=(obj.pk,), current_app=self.admin_site.name)
        return super().render_change_form(request, context, *args, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.readonly_fields

    def signs(self, row: Any) -> ProcessSigns | None:
        """Return the vital signs of the process that holds the connection, from the query of `SignedList`."""
        boot_id = getattr(row, self.server_column)
        if not hasattr(row, "signs"):
            row.signs = vital_signs.of_processes([boot_id] if boot_id else []).get(boot_id)
        found: ProcessSigns | None = row.signs
        return found

    @admin.display(description=_("caller"))
    def caller(self, row: Any) -> SafeString:
        return text(row.principal_label, NAME_CHARS)

    @admin.display(description=_("protocol"))
    def protocol(self, row: Any) -> SafeString:
        return text(row.protocol_version)

    @admin.display(description=_("endpoint"))
    def endpoint_name(self, row: Any) -> SafeString:
        return text(row.endpoint)

    @admin.display(description=_("server process"))
    def held_by(self, row: Any) -> Any:
        if getattr(row, self.server_column) is None:
            return NOTHING
        signs = self.signs(row)
        if signs is None or signs.is_silent:
            return badge("lost", describe_heartbeat(signs))
        return safe_text(f"{signs.hostname}, process {signs.pid}")

    def _confirm(self, request: HttpRequest, chosen: QuerySet[Any]) -> HttpResponse:
        rows = list(chosen[:MAX_AT_ONCE])
        if not rows:
            self.message_user(request, "Nothing to close: it has already ended.", messages.WARNING)
            return HttpResponseRedirect(self._list_url())
        context = {
            **self.admin_site.each_context(request),
            "title": f"Close {self.opts.verbose_name if len(rows) == 1 else self.opts.verbose_name_plural}",
            "opts": self.opts,
            "media": self.media,
            "ids": ",".join(str(row.pk) for row in rows),
            "count": len(rows),
            "lines": [self._line(row) for row in rows[:SHOWN]],
            "action": reverse(f"admin:mcp_app_{self.opts.model_name}_close_selected", current_app=self.admin_site.name),
            "back": self._list_url(),
            "what_closing_does": self.what_closing_does,
            "asks_why": self.asks_why,
            "reason_chars": max_reason_chars(),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/mcp_app/close_connections.html", context)

    def _line(self, row: Any) -> dict[str, Any]:
        since = getattr(row, "created_at", None) or getattr(row, "opened_at", None)
        return {"caller": self.caller(row), "protocol": self.protocol(row), "since": moment(since), "id": row.pk}

    def _list_url(self) -> str:
        return reverse(f"admin:mcp_app_{self.opts.model_name}_changelist", current_app=self.admin_site.name)


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
