"""The filters of the list of cancellations. None of them asks the audit for its distinct values: it only grows.

Actors are as many as there are principals, so theirs is typed, exactly, which an index
answers; a part of a name is found by the search.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date

from mcp_app.admin.request_lists import ToolFilter

DAYS = {"today": 1, "7": 7, "30": 30}


class WithinFilter(admin.SimpleListFilter):
    """The last days, today being one of them, in the site's time zone."""

    title = "time"
    parameter_name = "within"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("today", "Today"), ("7", "Last 7 days"), ("30", "Last 30 days")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if (value := self.value()) is None:
            return queryset
        if value not in DAYS:
            raise IncorrectLookupParameters(f"{self.parameter_name} is one of {', '.join(DAYS)}")
        midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
        return queryset.filter(requested_at__gte=midnight - timedelta(days=DAYS[value] - 1))


class AuditedToolFilter(ToolFilter):
    """By tool; the one that was asked for is a choice also when its row is gone: its cancellations are not."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        choices = super().lookups(request, model_admin)
        value = self.value()
        return choices if value is None or (value, value) in choices else [*choices, (value, value)]


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a filter that is typed: its parameter in the query, what it is called, its HTML type."""

    name: str
    label: str
    type: str


class TypedFilter(admin.ListFilter):
    """A filter with inputs instead of a list of choices."""

    template = "admin/mcp_app/cancellation/typed_filter.html"
    inputs: tuple[Input, ...]

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for each in self.inputs:
            if each.name in params and (value := params.pop(each.name)[-1].strip()):
                self.used_parameters[each.name] = value

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return [each.name for each in self.inputs]

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """What the template needs, once: the inputs, and the rest of the query to be kept."""
        mine = {*(each.name for each in self.inputs), "p"}
        kept = [
            (name, value) for name, values in changelist.filter_params.items() if name not in mine for value in values
        ]
        yield {
            "inputs": [(each, self.used_parameters.get(each.name, "")) for each in self.inputs],
            "kept": kept,
            "active": bool(self.used_parameters),
            "without": changelist.get_query_string(dict.fromkeys(mine)),
        }


class BetweenFilter(TypedFilter):
    """Days of the site's time zone, both included."""

    title = "days"
    inputs = (Input("from", "From", "date"), Input("to", "To", "date"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if (first := self._midnight("from")) is not None:
            queryset = queryset.filter(requested_at__gte=first)
        if (last := self._midnight("to", days=1)) is not None:
            queryset = queryset.filter(requested_at__lt=last)
        return queryset

    def _midnight(self, name: str, days: int = 0) -> datetime | None:
        if (value := self.used_parameters.get(name)) is None:
            return None
        try:
            day = parse_date(str(value))
            if day is None:
                raise ValueError(f"{name} is a date, as 2026-01-31")
            return timezone.make_aware(datetime(day.year, day.month, day.day) + timedelta(days=days))
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(error) from error


class ActorFilter(TypedFilter):
    title = "actor"
    inputs = (Input("actor", "Exactly", "search"),)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        actor = self.used_parameters.get("actor")
        return queryset if actor is None else queryset.filter(actor=actor)
