"""The operations list, get, create and update, for one call. They only see the caller's own rows.

A write is one transaction, on the database to which the site's routers send writes of the model.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, models, router, transaction
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from mcp_app.catalogue.errors import ToolError
from mcp_app.derived import arguments
from mcp_app.derived.layout import Layout, prefetched
from mcp_app.derived.model_tools import User

Arguments = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelCaller:
    """The caller, and whether they may see rows. A caller who may write may lack that right."""

    user: User
    may_view: bool


def list_rows(layout: Layout, caller: ModelCaller, given: Arguments) -> dict[str, Any]:
    """Return a page of the caller's rows, and the offset of the next page or `None`."""
    tools, user = layout.tools, caller.user
    kinds = {name: each.kind for name, each in layout.filters.items()}
    queryset = tools.get_queryset(user)
    for name, value in arguments.read(kinds, {name: given[name] for name in kinds if name in given}).items():
        narrowing = layout.filters[name]
        seen = None if narrowing.many is None else tools.get_related_queryset(user, narrowing.many)
        queryset = narrowing.narrow(queryset, value, seen)
    limit, offset = int(given.get("limit", tools.max_limit)), int(given.get("offset", 0))
    found = list(_shown(layout, user, _sorted(layout, queryset, given.get("order_by")))[offset : offset + limit + 1])
    rows = [shown(layout, each) for each in found[:limit] if tools.has_object_permission(user, "view", each)]
    return {"items": rows, "next_offset": offset + limit if len(found) > limit else None}


def get_row(layout: Layout, caller: ModelCaller, given: Arguments) -> Row:
    """Return one of the caller's rows. Raises `ToolError` if it does not exist for the caller."""
    key = _key(layout, given)
    found = find(layout, caller.user, key)
    if found is None:
        raise _not_found(layout, key)
    return shown(layout, found)


def find(layout: Layout, user: User, key: Any) -> Any:
    """Return the row with this key, or `None` if the caller may not see it."""
    return _found(layout, user, layout.tools.get_queryset(user), key)


def create_row(layout: Layout, caller: ModelCaller, given: Arguments) -> Row:
    """Create a row and return it.

    Raises `InvalidArguments`, and `ToolError` if the caller may not add it.
    """
    tools, user = layout.tools, caller.user
    values = arguments.read(layout.writable, given)
    alias = _written_in(tools.get_queryset(user))
    with refusals(), transaction.atomic(using=alias):
        row = tools.new_object(user)
        row._state.db = alias
        form = layout.form(values, row, lambda field: tools.get_related_queryset(user, field).using(alias))
        arguments.check(form)
        if not tools.has_object_permission(user, "add", row):
            raise ToolError(_("You may not add this."))
        form.save(commit=False)
        tools.save(user, row)
        form.save_m2m()
        return _written(layout, caller, alias, row)


def update_row(layout: Layout, caller: ModelCaller, given: Arguments) -> Row:
    """Change the given fields of one of the caller's rows. Raises as `create_row` and `get_row`."""
    tools, user = layout.tools, caller.user
    key = _key(layout, given)
    values = arguments.read(layout.writable, {name: value for name, value in given.items() if name != "pk"})
    alias = _written_in(tools.get_queryset(user))
    with refusals(), transaction.atomic(using=alias):
        row = _to_change(layout, caller, alias, key)

        def related(field: Any) -> QuerySet[Any]:
            return tools.get_related_queryset(user, field).using(alias)

        form = layout.form(values, row, related)
        arguments.check(form)
        form.save(commit=False)
        tools.save(user, row)
        for name in layout.many.keys() & values.keys():
            kept = getattr(row, name).exclude(pk__in=related(layout.many[name]).values("pk"))
            form.cleaned_data[name] = [*form.cleaned_data[name], *kept]  # keep rows that the caller cannot see
        form.save_m2m()
        return _written(layout, caller, alias, row)


def _to_change(layout: Layout, caller: ModelCaller, alias: str, key: Any) -> Any:
    """Return the row to change, locked if the database supports it."""
    tools, user = layout.tools, caller.user
    rows = tools.get_queryset(user).using(alias)
    if (row := rows.filter(pk=key).first()) is None:
        raise _not_found(layout, key)
    _check_change(layout, caller, row, key)
    # Locked by its key alone, because databases cannot lock joined or grouped rows.
    list(tools.model._base_manager.using(alias).select_for_update().filter(pk=key).values_list("pk"))
    if (row := rows.filter(pk=key).first()) is None:
        raise _not_found(layout, key)
    _check_change(layout, caller, row, key)  # again: the previous holder of the lock may have changed the row
    return row


def _check_change(layout: Layout, caller: ModelCaller, row: Any, key: Any) -> None:
    tools, user = layout.tools, caller.user
    if not tools.has_object_permission(user, "change", row):
        seen = caller.may_view and tools.has_object_permission(user, "view", row)
        raise ToolError(_("You may not change this.")) if seen else _not_found(layout, key)


def _written(layout: Layout, caller: ModelCaller, alias: str, row: Any) -> Row:
    """Return the written row as the caller may see it, or only its key."""
    if caller.may_view:
        found = _found(layout, caller.user, layout.tools.get_queryset(caller.user).using(alias), row.pk)
        if found is not None:
            return shown(layout, found)
    return {"pk": layout.key.write(row.pk)}


def _found(layout: Layout, user: User, queryset: QuerySet[Any], key: Any) -> Any:
    found = _shown(layout, user, queryset.filter(pk=key)).first()
    return found if found is not None and layout.tools.has_object_permission(user, "view", found) else None


def _shown(layout: Layout, user: User, queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Prefetch the shown relations, with one query for each."""
    tools = layout.tools
    related = {name: tools.get_related_queryset(user, field) for name, field in layout.many.items()}
    if (alias := _stated_alias(queryset)) is not None:
        related = {name: rows.using(alias) for name, rows in related.items()}
    return queryset.prefetch_related(
        *(Prefetch(name, queryset=rows, to_attr=prefetched(name)) for name, rows in related.items())
    )


def _sorted(layout: Layout, queryset: QuerySet[Any], order_by: str | None) -> QuerySet[Any]:
    """Sort by the key last, so that pages neither repeat nor skip rows with equal values."""
    meant: Any = [order_by] if order_by else layout.tools.ordering or queryset.query.order_by
    return queryset.order_by(*(meant or layout.tools.model._meta.ordering or ()), "pk")


def shown(layout: Layout, row: models.Model) -> Row:
    return {name: column.value(row) for name, column in layout.columns.items()}


def _key(layout: Layout, given: Arguments) -> Any:
    return arguments.read({"pk": layout.key}, {"pk": given["pk"]})["pk"]


def _not_found(layout: Layout, key: Any) -> ToolError:
    name = layout.tools.model._meta.verbose_name
    return ToolError(_("There is no %(name)s %(key)s.") % {"name": name, "key": key})


def _stated_alias(queryset: QuerySet[Any]) -> str | None:
    """Return the database that `using` set, or `None` if the routers decide."""
    return getattr(queryset, "_db", None)


def _written_in(queryset: QuerySet[Any]) -> str:
    return _stated_alias(queryset) or router.db_for_write(queryset.model)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn IntegrityError from the block, a transaction, into a `ToolError`."""
    try:
        yield
    except IntegrityError as error:
        raise ToolError(
            _(
                "This conflicts with stored data, perhaps with a change made in the meantime; read the "
                "data again and try other values."
            )
        ) from error
