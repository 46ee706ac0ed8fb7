"""Filters of lists: Django's lookups as arguments.

Only lookups that the author names are offered. They are checked when they are declared.

Regular expressions are not offered, because their cost in a database has no limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db import models
from django.db.models import Q, QuerySet

from mcp_app.derived import kinds, model_fields
from mcp_app.derived.kinds import ValueKind

MAX_VALUES: Final = 100
"""Maximum length of a list of values for `in`."""

_COMPARISONS: Final = frozenset({"exact", "gt", "gte", "lt", "lte"})
_TEXTUAL: Final = frozenset({"contains", "startswith", "endswith", "icontains", "istartswith", "iendswith", "iexact"})
_PARTS: Final = {
    # Django turns them into a range of dates, which must be valid in any time zone.
    **dict.fromkeys(("year", "iso_year"), kinds.INTEGER.with_schema(minimum=2, maximum=9998)),
    **dict.fromkeys(("quarter", "month", "week", "day", "week_day", "iso_week_day"), kinds.INTEGER),
    **dict.fromkeys(("hour", "minute", "second"), kinds.INTEGER),
    "date": kinds.DATE,
    "time": kinds.TIME,
}


class UnusableLookupError(ValueError):
    """A filter cannot be offered. The message explains what to change."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One argument of a list: the lookup whose name it has."""

    lookup: str
    kind: ValueKind
    is_multiple: bool
    """Whether the lookup's joins may return a row more than once."""
    many: Any = None
    """The model's many-to-many field with which the lookup begins. A caller sees only some of its
    rows."""

    def narrow(self, queryset: QuerySet[Any], value: Any, seen: QuerySet[Any] | None) -> QuerySet[Any]:
        """Return the rows that have the value, each once.

        `seen`: the rows of the field `many` that exist for the caller.
        """
        if not self.is_multiple:
            return queryset.filter(**{self.lookup: value})
        rows = queryset.model._base_manager.using(queryset.db)
        if seen is None:
            return queryset.filter(pk__in=rows.filter(**{self.lookup: value}).values("pk"))
        among = {f"{self.many.name}__in": seen.using(queryset.db)}
        if self.lookup == f"{self.many.name}__isnull":
            has_any = Q(pk__in=rows.filter(**among).values("pk"))
            return queryset.filter(~has_any if value else has_any)
        # In one call of `filter`, so that both conditions apply to the same related row.
        return queryset.filter(pk__in=rows.filter(**{self.lookup: value}, **among).values("pk"))


def resolve(model: type[models.Model], lookup: str) -> Filter:
    """Return the filter for a lookup. Raises `UnusableLookupError`."""
    parts = lookup.split("__")
    fields = list(_fields(model, parts))
    if not fields:
        raise UnusableLookupError(f"the filter {lookup!r} names no field of {model._meta.label}")
    field, words = fields[-1], parts[len(fields) :]
    kind = _narrowed(field)
    for part in words[:-1] if words and words[-1] not in _PARTS else words:
        if part not in _PARTS or kind not in (kinds.DATE, kinds.MOMENT, kinds.TIME):
            raise _unusable(lookup, part)
        kind = _PARTS[part]
    last = words[-1] if words and words[-1] not in _PARTS else "exact"
    is_multiple = any(each.many_to_many or each.one_to_many for each in fields)
    many = fields[0] if isinstance(fields[0], models.ManyToManyField) else None
    return Filter(lookup, _compared(lookup, last, kind), is_multiple, many)


def _fields(model: type[models.Model], parts: list[str]) -> Iterator[Any]:
    """Yield the fields that the first parts of a lookup lead through."""
    current: type[models.Model] | None = model
    for part in parts:
        if current is None:
            return
        names = {each.name: each for each in current._meta.get_fields()}
        if (field := current._meta.pk if part == "pk" else names.get(part)) is None:
            return
        yield field
        current = field.related_model if field.is_relation else None


def _narrowed(field: Any) -> ValueKind | None:
    if field.is_relation and not field.concrete and field.related_model:
        return model_fields.key_of(field.related_model)  # a reverse relation
    kind = model_fields.kind_of(field)
    if kind is not None and (values := model_fields.choices_of(field)):
        return kind.with_schema(enum=[kind.write(value) for value in values])
    return kind


def _compared(lookup: str, word: str, kind: ValueKind | None) -> ValueKind:
    if word == "isnull":
        return kinds.BOOLEAN
    if kind is None or kind is kinds.ANYTHING:
        raise UnusableLookupError(f"the filter {lookup!r} compares a value that has no single JSON type")
    if kind is kinds.DECIMAL_TEXT:
        kind = kinds.DECIMAL
    if word in _COMPARISONS:
        return kind
    if word in _TEXTUAL and kind.read is kinds.TEXT.read:
        return kinds.TEXT
    if word == "in":
        return kind.many(maxItems=MAX_VALUES)
    if word == "range":
        return kind.many(minItems=2, maxItems=2)
    raise _unusable(lookup, word)


def _unusable(lookup: str, word: str) -> UnusableLookupError:
    return UnusableLookupError(
        f"the filter {lookup!r} has {word!r}, a lookup that cannot be offered on that field; narrow "
        "get_queryset, or write a tool of your own"
    )
