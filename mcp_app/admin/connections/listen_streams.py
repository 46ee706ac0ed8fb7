"""The admin's pages of listen streams: which clients subscribe to which changes. Streams can be closed here."""

from collections.abc import Sequence
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.connections.closing import ClosingAdmin
from mcp_app.admin.requests.request_columns import NAME_CHARS, text
from mcp_app.lifecycle.sessions import listen_streams
from mcp_app.models import ListenStream
from mcp_app.presentation.formatting import NOTHING, moment

FILTER_CHARS = 10_000
_LISTS = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}


@admin.register(ListenStream)
class ListenStreamAdmin(ClosingAdmin):
    list_display = ("caller", "client", "protocol", "endpoint_name", "since", "told_of", "held_by", "closing")
    readonly_fields = (*list_display, "address", "resources")
    sortable_by = ("since",)
    listed_at = "opened_at"
    nothing = "No listen stream is open."
    what_closing_does = (
        "Each stream ends with its final result, as when the server shuts down. Its client may open another one; to "
        "prevent that, revoke its token or remove its permissions."
    )

    def close_rows(self, request: HttpRequest, ids: Sequence[UUID], reason: str) -> str:
        rows = list(ListenStream.objects.filter(pk__in=ids, close_requested_at__isnull=True))
        asked = listen_streams.close([row.pk for row in rows], by=request.user.get_username())
        for row in rows:
            self.log_change(request, row, f"Closed: {row}")
        return f"Listen streams that are being closed: {asked}."

    @admin.display(description=_("client"))
    def client(self, row: ListenStream) -> SafeString:
        return text(row.client_name, NAME_CHARS)

    @admin.display(description=_("since"), ordering="opened_at")
    def since(self, row: ListenStream) -> str:
        return moment(row.opened_at)

    @admin.display(description=_("told of"))
    def told_of(self, row: ListenStream) -> str:
        subjects = [f"list of {name}" for key, name in _LISTS.items() if row.filter.get(key)]
        if uris := row.filter.get("resourceSubscriptions"):
            subjects.append(f"{len(uris)} resources")
        if tasks := row.filter.get("tasks"):
            subjects.append(f"{tasks} tasks")
        return ", ".join(subjects) or NOTHING

    @admin.display(description=_("resources"))
    def resources(self, row: ListenStream) -> SafeString:
        return text("\n".join(map(str, row.filter.get("resourceSubscriptions", []))), FILTER_CHARS)

    @admin.display(description=_("address"))
    def address(self, row: ListenStream) -> SafeString:
        return text(row.remote_address)

    @admin.display(description=_("closing"))
    def closing(self, row: ListenStream) -> SafeString | str:
        if row.close_requested_at is None:
            return NOTHING
        return text(f"asked by {row.close_requested_by}, {moment(row.close_requested_at)}")
