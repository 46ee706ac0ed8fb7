"""The filters of the list of cancellations.

No filter queries the audit for distinct values, because the audit only grows. There are as many actors as principals,
so the actor is typed in full and found by an index. The search finds a part of a name.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from mcp_app.admin.lists.typed_filters import Input, TypedFilter
from mcp_app.admin.requests.request_lists import ToolFilter
from mcp_app.safe_text import safe_text

DAYS = {"today": 1, "7": 7, "30": 30}


class WithinFilter(admin.SimpleListFilter):
    """The last days in the site's time zone, today included."""

    title = "time"
    parameter_name = "within"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("today", "Today"), ("7", "Last 7 days"), ("30", "Last 30 days")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if (value := self.value()) is None:
            return queryset
        if value not in DAYS:
            raise IncorrectLookupParameters(f"{self.parameter_name} is one of {', '.join(DAYS)}")
        midnight = timezone.localtime(datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
        return queryset.filter(requested_at__gte=midnight - timedelta(days=DAYS[value] - 1))


class AuditedToolFilter(ToolFilter):
    """By tool. A selected tool stays a choice if its row is gone, because its cancellations remain."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        choices = super().lookups(request, model_admin)
        value = self.value()
        return choices if value is None or value in dict(choices) else [*choices, (value, safe_text(value))]


class ActorFilter(TypedFilter):
    title = "actor"
    inputs = (Input("actor", "Exactly", "search"),)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        actor = self.used_parameters.get("actor")
        return queryset if actor is None else queryset.filter(actor=actor)
