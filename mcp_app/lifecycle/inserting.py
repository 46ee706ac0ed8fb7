"""New requests, each with its first event, by as few statements as the database has.

Written out because every call pays for it: what a row says of itself are parameters, its other columns literals, the
model's defaults. On PostgreSQL one statement writes both tables and may commit by itself; SQLite needs two, and the
transaction of `unit`. Refuses to choose what is stored.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.lifecycle import columns, events, prepared
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.columns import Readers
from mcp_app.models import Request, RequestEvent
from mcp_app.states import Status

_FIELDS = {field.attname: field for field in Request._meta.concrete_fields}
_RETURNED = ("id", "submitted_at", "queued_at")
"""What the database says of a row, beside its key."""
_BY_THE_CLOCK = ("submitted_at", "queued_at")
_DEADLINE = "deadline_at"
_FIRST = events.transition(Status.QUEUED)
_TABLES = {"requests": Request._meta.db_table, "events": RequestEvent._meta.db_table, "returned": ", ".join(_RETURNED)}
_STATEMENT = "INSERT INTO {requests} ({names}) VALUES {rows} RETURNING {returned}"
_TOLD = "INSERT INTO {events} (request_id, seq, kind, data)"
_POSTGRESQL = f"""
WITH stored AS ({_STATEMENT}), told AS ({_TOLD} SELECT id, 1, %s, %s::jsonb FROM stored) SELECT {{returned}} FROM stored
"""  # noqa: S608 - its names are constants of ours


class _Form(NamedTuple):
    """A row of the statement, on one database: parameters, then the deadline, then literals."""

    given: "list[Field[Any, Any]]"
    names: str
    parameters: str
    literals: str
    readers: Readers
    left: "list[Field[Any, Any]]"
    """What a row says nothing of, and has its model's default."""


def unit() -> AbstractContextManager[None]:
    """What is to be around `insert`: a transaction, but where its one statement commits by itself."""
    connection = databases.connection()
    by_itself = connection.vendor == "postgresql" and not connection.in_atomic_block
    return nullcontext() if by_itself else databases.atomic()


def insert(rows: Sequence[Mapping[str, Any]], within: Sequence[float]) -> list[Request]:
    """Store QUEUED requests of these columns, all of the same ones; each is to be claimed within so many seconds."""
    connection = databases.connection()
    form = _form(connection.alias, tuple(rows[0]))
    placed, parameters = [], []
    for values, seconds in zip(rows, within, strict=True):
        deadline, seconds_of_it = _deadline(seconds, connection.alias)
        placed.append(f"({form.parameters}, {deadline}, {form.literals})")
        parameters += [_prepared(field, values, connection) for field in form.given]
        parameters += seconds_of_it
    keys = [values["id"] for values in rows]
    found = _execute(connection, form, ", ".join(placed), parameters, keys)
    by_key = {row[0]: row[1:] for row in (columns.read(row, form.readers) for row in found)}
    return [_stored(values, by_key[values["id"]], form, connection) for values in rows]


def _execute(
    connection: BaseDatabaseWrapper, form: _Form, rows: str, parameters: list[Any], keys: Sequence[Any]
) -> list[tuple[Any, ...]]:
    told = [_FIRST.kind.value, json.dumps(_FIRST.data)]
    if connection.vendor == "postgresql":
        return prepared.rows(
            connection, _POSTGRESQL.format(names=form.names, rows=rows, **_TABLES), [*parameters, *told]
        )
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT.format(names=form.names, rows=rows, **_TABLES), parameters)
        stored = list(cursor.fetchall())
        events_of_all = ", ".join(["(%s, 1, %s, %s)"] * len(keys))
        told_of_all = [each for key in keys for each in (key.hex, *told)]
        cursor.execute(f"{_TOLD.format(**_TABLES)} VALUES {events_of_all}", told_of_all)
        return stored


def _stored(values: Mapping[str, Any], times: Sequence[Any], form: _Form, connection: BaseDatabaseWrapper) -> Request:
    left = {field.attname: field.get_default() for field in form.left}
    by_the_clock = dict(zip(_BY_THE_CLOCK, times, strict=True))
    return columns.as_stored(Request, {**left, _DEADLINE: None, **values, **by_the_clock}, connection.alias)


def _prepared(field: "Field[Any, Any]", values: Mapping[str, Any], connection: BaseDatabaseWrapper) -> Any:
    return field.get_db_prep_save(values[field.attname], connection)


@cache
def _form(alias: str, names: tuple[str, ...]) -> _Form:
    connection = connections[alias]
    given = [_FIELDS[name] for name in names]
    left = {name: field for name, field in _FIELDS.items() if name not in names and name != _DEADLINE}
    literals = {name: _literal(field, connection) for name, field in left.items()}
    order = [*given, _FIELDS[_DEADLINE], *left.values()]
    return _Form(
        given,
        ", ".join(str(field.column) for field in order),
        ", ".join(["%s"] * len(given)),
        ", ".join(literals.values()),
        columns.readers([_FIELDS[name] for name in _RETURNED], connection),
        list(left.values()),
    )


def _literal(field: "Field[Any, Any]", connection: BaseDatabaseWrapper) -> str:
    if field.attname in _BY_THE_CLOCK:
        return columns.said(Now(), connection)[0]
    value = field.get_db_prep_save(field.get_default(), connection)
    return str(connection.schema_editor().quote_value(value.value if isinstance(value, Enum) else value))


@lru_cache(maxsize=64)
def _deadline(seconds: float, alias: str) -> tuple[str, list[Any]]:
    return columns.said(from_now(seconds), connections[alias])
