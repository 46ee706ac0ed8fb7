"""A step of a request's life in one statement, without a transaction: the row moves and its events are told.

A statement alone takes its lock, writes and commits without the interpreter, and is one round trip. A transaction would
keep the row's lock, on SQLite everybody's, while its process waits for the interpreter between two statements.
Refuses to know the steps.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model

from mcp_app import databases
from mcp_app.lifecycle import columns, events, prepared
from mcp_app.lifecycle.events import Event
from mcp_app.models import Request, RequestEvent

_POSTGRESQL = """
WITH moved AS (
    UPDATE {requests} SET event_seq = event_seq + {count}{assignments}
    WHERE {requests}.id = {id} AND CASE WHEN {condition} THEN TRUE ELSE FALSE END RETURNING {returned}
), told AS (
    INSERT INTO {events_table} (request_id, seq, kind, data) {told}
){beside}
SELECT {returned} FROM moved
"""
# Within CASE no condition is a reason to use an index: by that of a status PostgreSQL would look at all that wait.
_POSTGRESQL_BESIDE = ", beside AS (INSERT INTO {table} ({columns}) SELECT {values} FROM moved {on_conflict})"
_POSTGRESQL_TOLD = """SELECT moved.id, moved.event_seq - {count} + t.place, t.event ->> 0, (t.event ->> 1)::jsonb
    FROM moved, jsonb_array_elements({events}::jsonb) WITH ORDINALITY AS t (event, place)"""
_POSTGRESQL_TOLD_ONE = "SELECT moved.id, moved.event_seq, {kind}, {data} FROM moved"
_SQLITE_VIEW = "CREATE TEMP VIEW IF NOT EXISTS {name} AS SELECT {columns} FROM (SELECT NULL)"
_SQLITE_TRIGGER = """
CREATE TEMP TRIGGER IF NOT EXISTS {name}_insert INSTEAD OF INSERT ON {name} BEGIN
    INSERT INTO {events_table} (request_id, seq, kind, data) {told} AND {condition};
    {beside}
    UPDATE {requests} SET event_seq = event_seq + {count}{assignments} WHERE {requests}.id = {id} AND {condition};
END
"""
_SQLITE_TOLD = """
    SELECT {requests}.id, event_seq + 1 + t.key, json_extract(t.value, '$[0]'), json_extract(t.value, '$[1]')
    FROM {requests}, json_each({events}) AS t WHERE {requests}.id = {id}"""
_SQLITE_TOLD_ONE = "SELECT {requests}.id, event_seq + 1, {kind}, {data} FROM {requests} WHERE {requests}.id = {id}"
_SQLITE_BESIDE = (
    "INSERT INTO {table} ({columns}) SELECT {values} FROM {requests}"
    " WHERE {requests}.id = {id} AND {condition} {on_conflict};"
)
_SQLITE_INSERT = "INSERT INTO {name} ({names}) VALUES ({values})"
_ROWS = columns.Rows(Request)
_FIELDS = {field.name: field for field in _ROWS.fields}
_SELECT = f"SELECT {{columns}} FROM {Request._meta.db_table} WHERE id = %(id)s"  # noqa: S608 - a name of the model's
_BESIDE = "beside_{}"
"""The parameter of a column of the row beside it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a step says otherwise on each engine."""

    now: str
    same: str
    """The operator that takes nulls for equal."""
    least: str
    later: str
    """The time so many seconds from now."""
    ago: str
    """The seconds since a time."""


_DIALECTS = {
    "postgresql": Dialect(
        now="STATEMENT_TIMESTAMP()",
        same="IS NOT DISTINCT FROM",
        least="LEAST",
        later="STATEMENT_TIMESTAMP() + ({}) * INTERVAL '1 second'",
        ago="EXTRACT(EPOCH FROM STATEMENT_TIMESTAMP() - {})",
    ),
    "sqlite": Dialect(
        now="STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')",
        same="IS",
        least="MIN",
        later="STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW', ({}) || ' seconds')",
        ago="((JULIANDAY('NOW') - JULIANDAY({})) * 86400.0)",
    ),
}


@cache
def _fields_beside(model: type[Model]) -> "list[Field[Any, Any]]":
    return [field for field in model._meta.concrete_fields if not field.primary_key]


@cache
def _parameters_beside(model: type[Model]) -> list[str]:
    return [_BESIDE.format(field.column) for field in _fields_beside(model)]


@dataclass(frozen=True, slots=True)
class Beside:
    """A row of another table, written with the step over one that has the same `key`."""

    model: type[Model]
    key: str
    left: frozenset[str]
    """The columns that are left as they are in a row that was there."""

    @property
    def fields(self) -> "list[Field[Any, Any]]":
        """Of its columns, in the order of its values."""
        return _fields_beside(self.model)

    @property
    def columns(self) -> list[str]:
        return [str(field.column) for field in self.fields]

    def values(self, held: Mapping[str, Any]) -> tuple[Any, ...]:
        """A row with these attributes as it is stored."""
        connection = databases.connection()
        return tuple(columns.prepared(field, held[field.attname], connection) for field in self.fields)

    def parameters(self, values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(_parameters_beside(self.model), values, strict=True))

    def store(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write such rows by themselves, in a transaction."""
        with databases.connection().cursor() as cursor:
            cursor.executemany(self._statement, rows)

    @property
    def _statement(self) -> str:
        columns = self.columns
        places = ", ".join("%s" for _ in columns)
        return f"INSERT INTO {self.model._meta.db_table} ({', '.join(columns)}) VALUES ({places}) {self.on_conflict}"  # noqa: S608 - names of the model's

    @property
    def on_conflict(self) -> str:
        changed = [column for column in self.columns if column not in self.left | {self.key}]
        return f"ON CONFLICT ({self.key}) DO UPDATE SET " + ", ".join(f"{each} = excluded.{each}" for each in changed)


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be so before it, and what it assigns: SQL in which `{name}` is a parameter, `{requests}` the table."""

    name: str
    condition: Callable[[Dialect], str]
    assignments: Callable[[Dialect], Mapping[str, str]]
    parameters: tuple[str, ...] = ()
    beside: Beside | None = None
    tells_one: bool = False
    """Whether it always tells of one event, and of no more: they need not be taken out of an array then."""
    in_turn: bool = True
    """Whether it waits for its turn to write, on SQLite: not where a tool may stop the thread that has it."""


def take(step: Step, told: Sequence[Event], values: Mapping[str, Any], beside: Sequence[Any] | None = None) -> bool:
    """Take a step whose parameters are `values`, columns among them the row's id; whether it took.

    `beside`: what `Beside.values` made of the row beside it.
    """
    connection = databases.connection()
    parameters = _parameters(step, told, values, connection)
    if step.beside is not None and beside is not None:
        parameters |= step.beside.parameters(beside)
    if connection.vendor != "sqlite":
        return bool(prepared.rows(connection, _on_postgresql(step, "id, event_seq"), parameters))
    return _take_on_sqlite(step, connection, parameters)


def taken(
    step: Step, told: Sequence[Event], values: Mapping[str, Any], rows: columns.Rows[Request] = _ROWS
) -> Request | None:
    """The same; the row as it is then, or what `rows` read of it, or None where the step did not take."""
    connection = databases.connection()
    parameters = _parameters(step, told, values, connection)
    if connection.vendor != "sqlite":
        found = prepared.rows(connection, _on_postgresql(step, rows.columns), parameters)
        return rows.made_of(found[0], connection) if found else None
    if not _take_on_sqlite(step, connection, parameters):
        return None
    found = prepared.rows(connection, _SELECT.format(columns=rows.columns), {"id": parameters["id"]})
    return rows.made_of(found[0], connection) if found else None


def _parameters(
    step: Step, told: Sequence[Event], values: Mapping[str, Any], connection: BaseDatabaseWrapper
) -> dict[str, Any]:
    stored = {name: columns.prepared(_FIELDS[name], value, connection) for name, value in values.items()}
    if step.tells_one:
        [event] = told
        return {**stored, "kind": event.kind.value, "data": json.dumps(events.storable(event.data))}
    return {**stored, "count": len(told), "events": _as_json(told)}


def _take_on_sqlite(step: Step, connection: BaseDatabaseWrapper, parameters: dict[str, Any]) -> bool:
    """By a trigger of this connection's own: SQLite has no other statement that writes to two tables."""
    view, trigger, insert = _on_sqlite(step)
    make_on_sqlite(step.name, (view, trigger), connection)
    changed = connection.connection.total_changes
    with databases.turn(connection) if step.in_turn else nullcontext():
        prepared.rows(connection, insert, parameters)
    return bool(connection.connection.total_changes > changed)


def make_on_sqlite(name: str, statements: Iterable[str], connection: BaseDatabaseWrapper) -> None:
    """Make a view and its trigger, which are of this connection alone, where it has none of that name."""
    connection.ensure_connection()
    if name in _made.on(connection.connection):
        return
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    if not connection.in_atomic_block:  # whose end may take them back
        _made.names.add(name)


class _Made(threading.local):
    """The views that the connection of a thread has."""

    connection: object = None
    names: set[str]

    def on(self, connection: object) -> set[str]:
        if self.connection is not connection:
            self.connection, self.names = connection, set()
        return self.names


_made = _Made()


@lru_cache
def _on_postgresql(step: Step, returned: str) -> str:
    names = _names(step, "%({})s", "postgresql")
    told = (_POSTGRESQL_TOLD_ONE if step.tells_one else _POSTGRESQL_TOLD).format(**names)
    beside = _beside(step, _POSTGRESQL_BESIDE, names)
    return _POSTGRESQL.format(**names, returned=returned, told=told, beside=beside)


@lru_cache
def _on_sqlite(step: Step) -> tuple[str, str, str]:
    """The view, its trigger, and what sets that off."""
    names = _names(step, "NEW.{}", "sqlite") | {"name": step.name}
    parameters = _all_parameters(step)
    told = (_SQLITE_TOLD_ONE if step.tells_one else _SQLITE_TOLD).format(**names)
    return (
        _SQLITE_VIEW.format(name=step.name, columns=", ".join(f"NULL AS {each}" for each in parameters)),
        _SQLITE_TRIGGER.format(**names, told=told, beside=_beside(step, _SQLITE_BESIDE, names)),
        _SQLITE_INSERT.format(
            name=step.name, names=", ".join(parameters), values=", ".join(f"%({each})s" for each in parameters)
        ),
    )


def _all_parameters(step: Step) -> list[str]:
    beside = [] if step.beside is None else [_BESIDE.format(column) for column in step.beside.columns]
    told = ["kind", "data"] if step.tells_one else ["count", "events"]
    return ["id", *told, *step.parameters, *beside]


def _names(step: Step, marker: str, vendor: str) -> dict[str, str]:
    """What the braces of a statement stand for."""
    tables = {"requests": Request._meta.db_table, "events_table": RequestEvent._meta.db_table}
    names = {"count": "1"} | tables | {name: marker.format(name) for name in _all_parameters(step)}
    dialect = _DIALECTS[vendor]
    assigned = step.assignments(dialect)
    return {
        **names,
        "condition": step.condition(dialect).format(**names),
        "assignments": "".join(f", {column} = {value.format(**names)}" for column, value in assigned.items()),
    }


def _beside(step: Step, template: str, names: Mapping[str, str]) -> str:
    if step.beside is None:
        return ""
    written = step.beside.columns
    return template.format(
        **names,
        table=step.beside.model._meta.db_table,
        columns=", ".join(written),
        values=", ".join(names[_BESIDE.format(column)] for column in written),
        on_conflict=step.beside.on_conflict,
    )


def _as_json(told: Sequence[Event]) -> str:
    return json.dumps([(event.kind.value, json.dumps(events.storable(event.data))) for event in told])
