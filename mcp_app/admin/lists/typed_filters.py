"""Filters of lists that are typed instead of chosen from."""

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


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a filter that is typed: its parameter in the query, its label, its HTML type."""

    name: str
    label: str
    type: str


class TypedFilter(admin.ListFilter):
    """A filter with inputs instead of a list of choices."""

    template = "admin/mcp_app/typed_filter.html"
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
        """Yield the inputs and the other parameters of the query, for the template."""
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
    """Days of the site's time zone, both included, of the time that orders the list (`listed_at` of its admin)."""

    title = "days"
    inputs = (Input("from", "From", "date"), Input("to", "To", "date"))

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self._listed_at: str = model_admin.listed_at

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if (first := self._midnight("from")) is not None:
            queryset = queryset.filter(**{f"{self._listed_at}__gte": first})
        if (last := self._midnight("to", days=1)) is not None:
            queryset = queryset.filter(**{f"{self._listed_at}__lt": last})
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
