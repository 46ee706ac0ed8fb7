"""The list of a ModelAdmin: its search, its filters where an argument can set them, and pages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.admin import EmptyFieldListFilter, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import QuerySet
from django.utils.inspect import func_supports_parameter
from django.utils.translation import gettext as _

from mcp_app.catalogue.errors import ToolError
from mcp_app.derived import arguments, kinds, lookups, model_fields
from mcp_app.derived.admin import rows
from mcp_app.derived.admin.admin_calls import AdminCall, AnyModelAdmin, not_found
from mcp_app.derived.kinds import ValueKind
from mcp_app.derived.layout import LIST_ARGUMENTS, MAX_OFFSET
from mcp_app.derived.lookups import Filter

SEARCH: Final = "search"
MAX_SEARCH_CHARS: Final = 200
_RESERVED: Final = frozenset({SEARCH, *LIST_ARGUMENTS})


@dataclass(frozen=True, slots=True)
class AdminList:
    """The arguments of a ModelAdmin's list, for one caller."""

    model_admin: AnyModelAdmin
    has_search: bool
    filters: Mapping[str, Filter]
    own_filters: Mapping[str, type[SimpleListFilter]]
    """The filters that the site wrote itself, by their parameters."""
    sortable: tuple[str, ...]

    @property
    def page_size(self) -> int:
        return max(1, self.model_admin.list_per_page)

    @property
    def arguments(self) -> dict[str, ValueKind]:
        """The type of each argument."""
        found = {name: each.kind for name, each in self.filters.items()}
        for name in self.own_filters.keys() - _RESERVED:
            own = self.own_filters[name]
            found[name] = kinds.TEXT.with_schema(description=str(own.title or ""))
        if self.has_search:
            found[SEARCH] = kinds.TEXT.with_schema(maxLength=MAX_SEARCH_CHARS)
        if self.sortable:
            names = [name for each in self.sortable for name in (each, f"-{each}")]
            found["order_by"] = kinds.TEXT.with_schema(enum=names)
        most = max(self.page_size, self.model_admin.list_max_show_all)
        found["limit"] = kinds.INTEGER.with_schema(minimum=1, maximum=most, default=self.page_size)
        found["offset"] = kinds.INTEGER.with_schema(minimum=0, maximum=MAX_OFFSET, default=0)
        return found


def list_of(model_admin: AnyModelAdmin, request: Any) -> AdminList:
    """Return the list of a ModelAdmin as the user of the request has it.

    Filters that are neither a field nor a `SimpleListFilter` are left out.
    """
    stated = model_admin.get_list_filter(request)
    own = [each for each in stated if isinstance(each, type) and issubclass(each, SimpleListFilter)]
    paths = [_path(each) for each in stated]
    filters = {each.lookup: each for path in paths if isinstance(path, str) for each in _resolved(model_admin, path)}
    columns, sortable_by = model_admin.get_list_display(request), model_admin.get_sortable_by(request)
    sortable = [name for name in columns if name in sortable_by and _is_sortable(model_admin.model, name)]
    return AdminList(
        model_admin,
        bool(model_admin.get_search_fields(request)),
        filters,
        {each.parameter_name: each for each in own if each.parameter_name},
        tuple(str(name) for name in sortable),
    )


def _path(stated: Any) -> Any:
    """Return the path of a filter for a field. `EmptyFieldListFilter` must not disclose the value."""
    if not isinstance(stated, list | tuple):
        return stated
    path, shown_by = stated
    return None if issubclass(shown_by, EmptyFieldListFilter) else path


def _resolved(model_admin: AnyModelAdmin, path: str) -> Iterator[Filter]:
    """Yield the filters for a field: from and before a date, otherwise the value itself."""
    if rows.is_password(model_admin.model, path):
        return
    try:
        found = lookups.resolve(model_admin.model, path)
        if found.kind in (kinds.DATE, kinds.MOMENT):
            yield from (lookups.resolve(model_admin.model, f"{path}__{lookup}") for lookup in ("gte", "lt"))
        elif path not in _RESERVED:
            yield found
    except lookups.UnusableLookupError:
        return


def _is_sortable(model: type[models.Model], name: Any) -> bool:
    field = model_fields.find(model, name) if isinstance(name, str) else None
    return field is not None and not field.many_to_many and not rows.is_password(model, name)


def list_rows(call: AdminCall, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of the rows, and the offset of the next page or `None`."""
    if not call.may_view_some:
        raise ToolError(_("You may not view this."))
    mine = list_of(call.model_admin, call.request)
    kinds_of_caller = mine.arguments
    if unknown := [name for name in given if name not in kinds_of_caller]:
        raise arguments.unfit([f"{name}: {_('You cannot use this argument.')}" for name in unknown])
    values = arguments.read(kinds_of_caller, given)
    queryset = call.model_admin.get_queryset(call.request)
    for name in mine.filters.keys() & values.keys():
        _check_lookup(call, name, given[name])
        queryset = mine.filters[name].narrow(queryset, values[name], None)
    for name, own in mine.own_filters.items():  # without a value too, because a filter may have a default
        queryset = _narrowed(call, own, queryset, None if name in _RESERVED else values.get(name))
    if SEARCH in values:
        queryset = _searched(call, queryset, values[SEARCH])
    limit, offset = values.get("limit", mine.page_size), values.get("offset", 0)
    found = list(_sorted(_joined_with_related(call, queryset), values.get("order_by"))[offset : offset + limit + 1])
    return {"items": rows.listed(call, found[:limit]), "next_offset": offset + limit if len(found) > limit else None}


def get_row(call: AdminCall, given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a row. Raises `ToolError` if it does not exist for the caller."""
    row, key = call.find(given)
    if row is None or not call.may_view(row):
        raise not_found(call.model, key)
    return rows.shown(call, row)


def _check_lookup(call: AdminCall, name: str, value: Any) -> None:
    """Raise `InvalidArguments` if the ModelAdmin does not allow this filter."""
    allowed: Any = call.model_admin.lookup_allowed
    stated = (call.request,) if func_supports_parameter(allowed, "request") else ()
    if not allowed(name, str(value), *stated):
        raise arguments.unfit([f"{name}: {_('You cannot use this argument.')}"])


def _narrowed(
    call: AdminCall, own: type[SimpleListFilter], queryset: QuerySet[Any], value: str | None
) -> QuerySet[Any]:
    """Apply a filter that the site wrote itself."""
    parameter = str(own.parameter_name)
    try:
        made = own(call.request, {} if value is None else {parameter: [value]}, call.model, call.model_admin)
        choices = [str(choice) for choice, _label in made.lookup_choices]
        if value is None and not made.has_output():
            return queryset
        if value is not None and value not in choices:
            raise arguments.unfit([f"{parameter}: {_('Choose one of')}: {', '.join(choices)}"])
        narrowed = made.queryset(call.request, queryset)
    except (IncorrectLookupParameters, ValidationError) as error:
        raise arguments.unfit([f"{parameter}: {_('This value is not possible.')}"]) from error
    return queryset if narrowed is None else narrowed


def _searched(call: AdminCall, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
    found, may_repeat = call.model_admin.get_search_results(call.request, queryset, text)
    return queryset.filter(pk__in=found.order_by().values("pk")) if may_repeat else found


def _joined_with_related(call: AdminCall, queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Read the related rows of the columns in the same query."""
    stated = call.model_admin.get_list_select_related(call.request)
    if isinstance(stated, list | tuple):
        return queryset.select_related(*stated)
    columns = [name for name in call.model_admin.get_list_display(call.request) if isinstance(name, str)]
    related = [name for name in columns if isinstance(model_fields.find(call.model, name), models.ForeignKey)]
    if stated:
        return queryset.select_related()
    return queryset.select_related(*related) if related else queryset


def _sorted(queryset: QuerySet[Any], order_by: str | None) -> QuerySet[Any]:
    """Sort by the key last, so that pages neither repeat nor skip rows with equal values."""
    stated: Any = [order_by] if order_by else queryset.query.order_by or queryset.model._meta.ordering or ()
    return queryset.order_by(*stated, "pk")
