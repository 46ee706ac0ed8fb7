"""Allow exactly the lookups that a list's filters offer.

By default Django's admin accepts every lookup on a model's own fields in the query string. One such as `__regex` can
keep the database busy for seconds per row, and any of them lets a user guess values that the list does not show.
"""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import get_fields_from_path
from django.http import HttpRequest


class OfferedLookupsAdmin(admin.ModelAdmin):
    """Base of all lists of this app."""

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        return lookup in self._offered(request)

    def _offered(self, request: Any) -> Iterator[str | None]:
        filters: Any = self.list_filter if request is None else self.get_list_filter(request)
        for chosen in filters:
            if isinstance(chosen, type) and issubclass(chosen, admin.SimpleListFilter):
                yield chosen.parameter_name  # its instance would query the choices
            elif isinstance(chosen, type):
                yield from chosen(request, {}, self.model, self).expected_parameters()
            else:
                name, make = (chosen, admin.FieldListFilter.create) if isinstance(chosen, str) else chosen
                field = get_fields_from_path(self.model, name)[-1]
                made = make(field, request, {}, self.model, self, field_path=name)
                yield from made.expected_parameters()
