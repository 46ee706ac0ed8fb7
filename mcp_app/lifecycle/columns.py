"""What the ORM does for columns and values, for statements that are written out because every call pays for them.

Refuses to know any statement.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Field, JSONField, Model, TextField, UUIDField
from django.db.models.base import ModelState
from django.db.models.sql import InsertQuery

from mcp_app.models import Request

M = TypeVar("M", bound=Model)
Reader = Callable[[Any], Any]
Readers = Sequence[tuple[int, Reader]]
"""What makes values of what the database returned, by place; the others are values as they are."""

_TEXTS = (CharField, TextField)
_JSON = (dict, list, str, int, float, bool)


class Condition(NamedTuple):
    """What a statement asks for, and its parameters."""

    text: str
    parameters: Sequence[Any]


AMONG = {"sqlite": "IN (SELECT value FROM json_each(%s))", "postgresql": "= ANY(%s)"}
"""By vendor: that a column is one of any number of keys, which are one parameter: `keys`."""


def keys(ids: Iterable[UUID], connection: BaseDatabaseWrapper) -> Any:
    return json.dumps([each.hex for each in ids]) if connection.vendor == "sqlite" else list(ids)


def prepared(field: "Field[Any, Any]", value: Any, connection: BaseDatabaseWrapper) -> Any:
    """A value as a parameter that is stored in the field's column: what the field itself makes of it, at less cost."""
    if value is None:
        return None
    kind = type(field)
    if kind in _TEXTS and isinstance(value, str):
        return str.__str__(value)
    if kind is UUIDField and type(value) is UUID:
        return value if connection.features.has_native_uuid_field else value.hex
    if isinstance(field, JSONField) and field.encoder is None and type(value) in _JSON:
        return json.dumps(value)
    return field.get_db_prep_save(value, connection)


def said(expression: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
    """An expression without columns, such as a time, in this database's words, with its parameters."""
    query = InsertQuery(Request)
    resolved = expression.resolve_expression(query, allow_joins=False, for_save=True)
    compiled, parameters = query.get_compiler(connection=connection).compile(resolved)
    return compiled, list(parameters)


def readers(fields: Iterable["Field[Any, Any]"], connection: BaseDatabaseWrapper) -> Readers:
    """Of the values of these fields."""
    made = ((place, _reader(field, connection)) for place, field in enumerate(fields))
    return [(place, reader) for place, reader in made if reader is not None]


def read(row: Sequence[Any], by: Readers) -> list[Any]:
    values = list(row)
    for place, reader in by:
        if values[place] is not None:
            values[place] = reader(values[place])
    return values


def as_stored(model: type[M], values: Mapping[str, Any], alias: str) -> M:
    """A row that this database has, as `Model.from_db` makes it, without a look at each field. What is left out is
    deferred."""
    row = model.__new__(model)
    row.__dict__.update(values)
    row._state = ModelState()
    row._state.adding, row._state.db = False, alias
    return row


class Rows(Generic[M]):
    """Makes rows of a model, or those of their columns that are named, of what the database returned."""

    def __init__(self, model: type[M], names: Collection[str] | None = None) -> None:
        self._model = model
        self.fields = [each for each in model._meta.concrete_fields if names is None or each.attname in names]
        self.names = [each.attname for each in self.fields]
        self.columns = ", ".join(str(each.column) for each in self.fields)
        """As a statement returns them."""
        self._readers: dict[str, Readers] = {}

    def made_of(self, found: Sequence[Any], connection: BaseDatabaseWrapper) -> M:
        """One row; `found` are the values of `fields`."""
        if (by := self._readers.get(connection.alias)) is None:
            by = self._readers[connection.alias] = readers(self.fields, connection)
        return as_stored(self._model, dict(zip(self.names, read(found, by), strict=True)), connection.alias)


def _reader(field: "Field[Any, Any]", connection: BaseDatabaseWrapper) -> Reader | None:
    if isinstance(field, JSONField) and field.decoder is None:
        return _from_json
    column = field.get_col(field.model._meta.db_table)
    steps = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value, column, connection)
        return value

    return convert if steps else None


def _from_json(text: str) -> Any:
    """As the field reads it, which most often is empty."""
    if text == "{}":
        return {}
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
