"""What the ORM does for columns and values, for statements that are written out because every call pays for them.

Refuses to know any statement.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model
from django.db.models.sql import InsertQuery

from mcp_app.models import Request

M = TypeVar("M", bound=Model)
Reader = Callable[[Any], Any]

AMONG = {"sqlite": "IN (SELECT value FROM json_each(%s))", "postgresql": "= ANY(%s)"}
"""By vendor: that a column is one of any number of keys, which are one parameter: `keys`."""


def keys(ids: Iterable[UUID], connection: BaseDatabaseWrapper) -> Any:
    return json.dumps([each.hex for each in ids]) if connection.vendor == "sqlite" else list(ids)


def said(expression: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
    """An expression without columns, such as a time, in this database's words, with its parameters."""
    query = InsertQuery(Request)
    resolved = expression.resolve_expression(query, allow_joins=False, for_save=True)
    compiled, parameters = query.get_compiler(connection=connection).compile(resolved)
    return compiled, list(parameters)


def readers(fields: Iterable["Field[Any, Any]"], connection: BaseDatabaseWrapper) -> list[Reader]:
    """For each field, what makes a value of what the database returned."""
    return [_reader(field, connection) for field in fields]


def read(row: Sequence[Any], by: Sequence[Reader]) -> list[Any]:
    return [each(value) for each, value in zip(by, row, strict=True)]


class Rows(Generic[M]):
    """Makes rows of a model, or those of their columns that are named, of what the database returned."""

    def __init__(self, model: type[M], names: Collection[str] | None = None) -> None:
        self._model = model
        self.fields = [each for each in model._meta.concrete_fields if names is None or each.attname in names]
        self.names = [each.attname for each in self.fields]
        self._readers: dict[str, list[Reader]] = {}

    def made_of(self, found: Sequence[Any], connection: BaseDatabaseWrapper) -> M:
        """One row; `found` are the values of `fields`."""
        if (by := self._readers.get(connection.alias)) is None:
            by = self._readers[connection.alias] = readers(self.fields, connection)
        return self._model.from_db(connection.alias, self.names, read(found, by))


def _reader(field: "Field[Any, Any]", connection: BaseDatabaseWrapper) -> Reader:
    column = field.get_col(field.model._meta.db_table)
    steps = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value, column, connection)
        return value

    return convert if steps else _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
