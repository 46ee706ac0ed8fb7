"""`Layout`: the checked columns, arguments and filters of a `ModelTools` class.

It is created once, while the author's module is imported, and does not depend on the caller.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from django.core.exceptions import FieldError
from django.db import models
from pydantic import TypeAdapter

from mcp_app.auth.principal import Access
from mcp_app.catalogue.content.blocks import jsonable
from mcp_app.catalogue.schema import signature
from mcp_app.derived import form_fields, kinds, lookups, model_fields, model_forms
from mcp_app.derived.kinds import ValueKind
from mcp_app.derived.lookups import Filter
from mcp_app.derived.model_forms import PartialModelForm
from mcp_app.derived.model_tools import ModelTools

MAX_OFFSET: Final = 10_000
LIST_ARGUMENTS: Final = ("order_by", "limit", "offset")
"""The arguments of every list, besides its filters."""
_NO_DEFAULT: Final = (None, models.NOT_PROVIDED)


@dataclass(frozen=True, slots=True)
class Column:
    """One published member of a row: its schema, and the function that reads it from the row."""

    schema: dict[str, Any]
    value: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """The properties of a published model that its tools need."""

    tools: ModelTools
    key: ValueKind
    columns: Mapping[str, Column]
    many: Mapping[str, Any]
    """The many-to-many fields among the columns, by name. A caller sees only rows that exist for
    them."""
    writable: Mapping[str, ValueKind]
    required: tuple[str, ...]
    form: type[PartialModelForm]
    filters: Mapping[str, Filter]
    view_access: Access
    """The rights that a caller must have to see a row."""

    @property
    def row_schema(self) -> dict[str, Any]:
        """The JSON Schema of a row in results."""
        properties = {name: column.schema for name, column in self.columns.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}


def prefetched(name: str) -> str:
    """Return the attribute of a row that holds the related rows that the caller may see."""
    return f"mcp_allowed_{name}"


def of(tools: ModelTools, view_access: Access) -> Layout:
    """Make the layout of a class. Raises ValueError or a subclass if it cannot be published."""
    model = tools.model
    _check_names(tools)
    fields = {name: model_fields.find(model, name) for name in tools.fields}
    writable = [name for name, field in fields.items() if field is not None and _is_writable(tools, field)]
    form, arguments, required = _inputs(model, tools, writable)
    key = model_fields.key_of(model)
    columns = {"pk": Column(dict(key.schema), lambda row: key.write(row.pk))}
    return Layout(
        tools=tools,
        key=key,
        columns={**columns, **{name: _column(tools, name, field) for name, field in fields.items() if name != "pk"}},
        many={name: field for name, field in fields.items() if isinstance(field, models.ManyToManyField)},
        writable=arguments,
        required=required,
        form=form,
        filters={lookup: lookups.resolve(model, lookup) for lookup in tools.filters},
        view_access=view_access,
    )


def _check_names(tools: ModelTools) -> None:
    for option in ("fields", "read_only", "filters", "ordering", "ordering_fields"):
        if isinstance(getattr(tools, option), str):
            raise ValueError(f"{option} must be a list of names, not a single name")
    if not tools.fields:
        raise ValueError("it names no fields")
    if unknown := [name for name in tools.read_only if name not in tools.fields]:
        raise ValueError(f"read_only names {', '.join(unknown)}, which is not among its fields")
    sortable = [name.removeprefix("-") for name in (*tools.ordering, *tools.ordering_fields)]
    if unknown := [name for name in sortable if name != "pk" and not _is_column(tools.model, name)]:
        raise ValueError(f"it is ordered by {', '.join(unknown)}, which {tools.model._meta.label} does not have")
    if taken := [name for name in tools.filters if name in LIST_ARGUMENTS]:
        raise ValueError(f"the filter {taken[0]!r} has the name of another argument of lists; write {taken[0]}__exact")
    if tools.max_limit < 1:
        raise ValueError("max_limit must be at least 1")


def _is_column(model: type[models.Model], path: str) -> bool:
    """Return whether rows can be sorted by a path.

    To-many relations are excluded: they repeat rows.
    """
    try:
        return not lookups.resolve(model, f"{path}__isnull").is_multiple
    except lookups.UnusableLookupError:
        return False


def _is_writable(tools: ModelTools, field: Any) -> bool:
    return field.editable and not field.primary_key and field.name not in tools.read_only


def _inputs(
    model: type[models.Model], tools: ModelTools, writable: list[str]
) -> tuple[type[PartialModelForm], dict[str, ValueKind], tuple[str, ...]]:
    try:
        form = model_forms.form_class(model, tools.form, writable)
    except FieldError as error:
        raise ValueError(str(error)) from error
    arguments, required = dict[str, ValueKind](), list[str]()
    for name in writable:
        if (field := form.base_fields.get(name)) is None:
            raise ValueError(f"its form leaves out {name}; make it read_only, or leave it out of fields")
        arguments[name] = _argument(name, field, model._meta.get_field(name))
        if form_fields.is_required(field) and getattr(model._meta.get_field(name), "db_default", None) in _NO_DEFAULT:
            required.append(name)
    return form, arguments, tuple(required)


def _argument(name: str, form_field: Any, field: Any) -> ValueKind:
    try:
        kind = form_fields.kind_of(name, form_field)
    except form_fields.UnusableFieldError as error:
        raise ValueError(f"{error}, or make it read_only") from error
    kind = kind.with_schema(**model_fields.limits_of(field))
    return kind.or_null() if field.null and not form_field.required else kind


def _column(tools: ModelTools, name: str, field: Any) -> Column:
    if field is None:
        return _computed(tools, name)
    if (kind := model_fields.kind_of(field)) is None:
        raise ValueError(f"{name} is a {type(field).__name__}, which has no JSON type; return it by a method")
    said = {"description": str(field.help_text) or None}
    if isinstance(field, models.ManyToManyField):
        many = kind.many().with_schema(**said)
        return Column(dict(many.schema), lambda row: many.write([each.pk for each in getattr(row, prefetched(name))]))
    if field.null or isinstance(field, models.GeneratedField):  # its expression may be null
        kind = kind.or_null()
    value = attrgetter(field.attname)
    if isinstance(field, models.FileField):
        return Column(dict(kind.with_schema(**said).schema), lambda row: kind.to_json(str(value(row)) or None))
    return Column(dict(kind.with_schema(**said).schema), lambda row: kind.to_json(value(row)))


def _computed(tools: ModelTools, name: str) -> Column:
    method = getattr(tools, name, None)
    if not callable(method) or hasattr(ModelTools, name):
        raise ValueError(f"{tools.model._meta.label} has no field {name}, nor {type(tools).__name__} such a method")
    annotations = signature.annotations_of(getattr(type(tools), name))
    if "return" not in annotations:
        raise ValueError(f"the method {name} needs a return annotation: def {name}(self, row) -> str")
    adapter = TypeAdapter(annotations["return"])
    schema = adapter.json_schema(mode="serialization")
    if "$defs" in schema:
        raise ValueError(f"the method {name} must return plain values, or lists or dictionaries of them")
    kind = kinds.ValueKind(schema).with_schema(description=signature.description_of(method))
    return Column(dict(kind.schema), lambda row: jsonable(method(row)))
