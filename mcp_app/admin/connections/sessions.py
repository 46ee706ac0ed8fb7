"""The admin's pages of the sessions of legacy clients, with their calls. Closing a session cancels its calls."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Left
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.connections.closing import MAX_AT_ONCE, ClosingAdmin
from mcp_app.admin.requests.cancelling import actor
from mcp_app.admin.requests.request_columns import NAME_CHARS, text, text_column
from mcp_app.lifecycle.cancellation import cancellation, groups
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Request, Session
from mcp_app.presentation.formatting import NOTHING, moment
from mcp_app.states import OPEN, Cause

_LISTED = (
    "principal_label", "endpoint", "protocol_version", "created_at", "seen_at", "stream_server", "subscriptions",
)  # fmt: skip


@admin.register(Session)
class SessionAdmin(ClosingAdmin):
    list_display = (
        "caller", "client", "protocol", "endpoint_name", "since", "seen", "open_calls", "subscribed", "held_by",
    )  # fmt: skip
    readonly_fields = (*list_display, "listed_subscriptions", "shown_log_level")
    sortable_by = ("seen",)
    listed_at = "seen_at"
    server_column = "stream_server"
    asks_why = True
    nothing = "No session is open."
    what_closing_does = (
        "The calls of each session are cancelled in your name, and its stream ends. Its client "
        "may start another session; to prevent "
        "that, revoke its token or remove its permissions. The reason is stored in the audit and sent to the clients."
    )

    shown_log_level = text_column("log_level", _("log level"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        rows: QuerySet[Session] = super().get_queryset(request).only(*_LISTED, "log_level")
        calls = Request.objects.filter(session=OuterRef("pk"), status__in=sorted(OPEN)).order_by().values("session")
        return rows.annotate(
            calls=Coalesce(Subquery(calls.annotate(number=Count("pk")).values("number")), 0),
            client_name=Left(KeyTextTransform("name", "client_info"), NAME_CHARS),
            client_version=Left(KeyTextTransform("version", "client_info"), NAME_CHARS),
        )

    def close_rows(self, request: HttpRequest, ids: Sequence[UUID], reason: str) -> str:
        rows = list(Session.objects.filter(pk__in=ids))
        cancelled = 0
        for row in rows:
            cancelled += sessions.end(row.pk, actor=actor(request), cause=Cause.ADMIN, reason=reason or sessions.ENDED)
            self.log_change(request, row, f"Closed: {row}")
        return f"Sessions closed: {len(rows)}. Calls cancelled: {cancelled}."

    def audit_denial(self, request: HttpRequest, ids: Sequence[UUID]) -> None:
        """Record an attempt on each call of the sessions."""
        calls = Request.objects.filter(session__in=ids, status__in=sorted(OPEN)).values_list("pk", "session")
        reason = request.POST.get("reason", "")
        cancellation.deny(
            [
                CancellationRequest(
                    call, Cause.ADMIN, actor(request), reason, part_of=groups.of_session(session_id).name
                )
                for call, session_id in calls[:MAX_AT_ONCE]
                if session_id is not None
            ]
        )

    @admin.display(description=_("client"))
    def client(self, row: Any) -> SafeString:
        return text(" ".join(part for part in (row.client_name, row.client_version) if part))

    @admin.display(description=_("since"))
    def since(self, row: Session) -> str:
        return moment(row.created_at)

    @admin.display(description=_("last seen"), ordering="seen_at")
    def seen(self, row: Session) -> str:
        return moment(row.seen_at)

    @admin.display(description=_("calls in flight"))
    def open_calls(self, row: Any) -> int:
        return int(row.calls)

    @admin.display(description=_("subscriptions"))
    def subscribed(self, row: Session) -> str:
        return str(len(row.subscriptions)) if row.subscriptions else NOTHING

    @admin.display(description=_("subscribed to"))
    def listed_subscriptions(self, row: Session) -> SafeString:
        return text("\n".join(map(str, row.subscriptions)), 10_000)
