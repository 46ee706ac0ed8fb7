"""New requests, each with its first event, by one statement.

Written out because every call pays for it: what a row says of itself are parameters, its other columns literals, the
model's defaults. The statement writes to both tables and commits by itself; on SQLite it writes to a view of the
connection's own, whose trigger does. Refuses to choose what is stored.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.lifecycle import columns, events, prepared, statements
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.columns import Condition, Readers
from mcp_app.models import Request, RequestEvent
from mcp_app.states import Status

_FIELDS = {field.attname: field for field in Request._meta.concrete_fields}
_BY_THE_CLOCK = ("submitted_at", "queued_at")
_DEADLINE = "deadline_at"
_FIRST = events.transition(Status.QUEUED)
_REQUESTS = f"INSERT INTO {Request._meta.db_table}"
_EVENT = f"INSERT INTO {RequestEvent._meta.db_table} (request_id, seq, kind, data)"
_KIND_AND_DATA = f"'{_FIRST.kind.value}', '{json.dumps(_FIRST.data)}'"
_POSTGRESQL = (
    "WITH stored AS ({requests} ({names}) ",
    " RETURNING id, {returned}), told AS ({event} SELECT id, 1, {kind_and_data}::jsonb FROM stored)"
    " SELECT id, {returned} FROM stored",
)
"""What is before the rows and after them."""
_UNAWAITED = {"postgresql": " AND set_config('synchronous_commit', 'off', TRUE) IS NOT NULL", "sqlite": ""}
"""Has the statement's own commit answer before its log is on disk. On SQLite that is the connection's to say."""
_SQLITE = ("INSERT INTO {view} ({said}, now) ", " RETURNING id, now, now")
_SQLITE_VIEW = "CREATE TEMP VIEW IF NOT EXISTS {view} AS SELECT {columns} FROM (SELECT NULL)"
_SQLITE_TRIGGER = """
CREATE TEMP TRIGGER IF NOT EXISTS {view}_insert INSTEAD OF INSERT ON {view} BEGIN
    {requests} ({names}) VALUES ({values});
    {event} VALUES (NEW.id, 1, {kind_and_data});
END
"""


class _Form(NamedTuple):
    """How rows with values for the same columns are stored in one database."""

    given: "list[Field[Any, Any]]"
    """What a row says by parameters."""
    parameters: str
    others: str
    """What follows those and the deadline."""
    statement: tuple[str, ...]
    """What is before the rows and after them."""
    made_first: tuple[str, ...]
    """What makes the view, on SQLite."""
    view: str
    left: "list[Field[Any, Any]]"
    """What a row says nothing of, and has its model's default."""
    readers: Readers


def insert(rows: Sequence[Mapping[str, Any]], within: Sequence[float]) -> list[Request]:
    """Store QUEUED requests of these columns, all of the same ones; each is to be claimed within so many seconds."""
    connection = databases.connection()
    form = _form(connection.alias, tuple(rows[0]))
    placed, parameters = [], []
    for values, seconds in zip(rows, within, strict=True):
        said, values_of_it = _said(form, values, seconds, connection)
        placed.append(f"({said})")
        parameters += values_of_it
    given = f"VALUES {', '.join(placed)}"
    by_key = {row[0]: row[1:] for row in _execute(connection, form, given.join(form.statement), parameters)}
    return [_stored(values, by_key[values["id"]], form, connection) for values in rows]


def insert_where(values: Mapping[str, Any], within: float, condition: Condition) -> Request | None:
    """The same of one, where the condition holds at that moment; else None, and nothing is stored.

    Of a request that nobody is told of before a worker claims it: a database that crashes before that may forget it.
    The claim's commit writes down both.
    """
    connection = databases.connection()
    form = _form(connection.alias, tuple(values))
    said, parameters = _said(form, values, within, connection)
    given = f"SELECT {said} WHERE ({condition.text}){_UNAWAITED[connection.vendor]}"
    found = _execute(connection, form, given.join(form.statement), [*parameters, *condition.parameters])
    return _stored(values, found[0][1:], form, connection) if found else None


def _said(
    form: _Form, values: Mapping[str, Any], within: float, connection: BaseDatabaseWrapper
) -> tuple[str, list[Any]]:
    """A row in SQL, and its parameters."""
    deadline, seconds = _deadline(within, connection.alias)
    parameters = [columns.prepared(field, values[field.attname], connection) for field in form.given]
    return f"{form.parameters}, {deadline}, {form.others}", [*parameters, *seconds]


def _execute(
    connection: BaseDatabaseWrapper, form: _Form, statement: str, parameters: Sequence[Any]
) -> list[list[Any]]:
    """Of each row that was stored its key and its times."""
    if connection.vendor == "sqlite":
        statements.make_on_sqlite(form.view, form.made_first, connection)
    with _unit(connection):
        stored = prepared.rows(connection, statement, parameters)
    return [columns.read(row, form.readers) for row in stored]


def _unit(connection: BaseDatabaseWrapper) -> AbstractContextManager[None]:
    """Within a transaction a part of it, which may fail; else SQLite's turn to write, which lasts for a statement."""
    return databases.atomic() if connection.in_atomic_block else databases.turn(connection)


def _stored(values: Mapping[str, Any], times: Sequence[Any], form: _Form, connection: BaseDatabaseWrapper) -> Request:
    left = {field.attname: field.get_default() for field in form.left}
    by_the_clock = dict(zip(_BY_THE_CLOCK, times, strict=True))
    return columns.as_stored(Request, {**left, _DEADLINE: None, **values, **by_the_clock}, connection.alias)


@cache
def _form(alias: str, names: tuple[str, ...]) -> _Form:
    connection = connections[alias]
    given = [_FIELDS[name] for name in names]
    left = [field for name, field in _FIELDS.items() if name not in (*names, _DEADLINE, *_BY_THE_CLOCK)]
    literals = [_literal(field, connection) for field in left]
    said = [*(str(field.column) for field in given), _DEADLINE]
    everything = ", ".join((*said, *_BY_THE_CLOCK, *(str(field.column) for field in left)))
    now, _ = columns.said(Now(), connection)
    view = f"mcp_submit_{zlib.crc32(everything.encode())}"
    from_view = (*(f"NEW.{name}" for name in said), *("NEW.now" for _ in _BY_THE_CLOCK), *literals)
    words = {
        "requests": _REQUESTS,
        "event": _EVENT,
        "kind_and_data": _KIND_AND_DATA,
        "names": everything,
        "said": ", ".join(said),
        "returned": ", ".join(_BY_THE_CLOCK),
        "view": view,
        "columns": ", ".join(f"NULL AS {name}" for name in (*said, "now")),
        "values": ", ".join(from_view),
    }
    on_sqlite = connection.vendor == "sqlite"
    others = now if on_sqlite else ", ".join((*(now for _ in _BY_THE_CLOCK), *literals))
    return _Form(
        given,
        ", ".join(["%s"] * len(given)),
        others,
        tuple(part.format(**words) for part in (_SQLITE if on_sqlite else _POSTGRESQL)),
        tuple(part.format(**words) for part in (_SQLITE_VIEW, _SQLITE_TRIGGER)),
        view,
        left,
        columns.readers([_FIELDS[name] for name in ("id", *_BY_THE_CLOCK)], connection),
    )


def _literal(field: "Field[Any, Any]", connection: BaseDatabaseWrapper) -> str:
    value = field.get_db_prep_save(field.get_default(), connection)
    return str(connection.schema_editor().quote_value(value.value if isinstance(value, Enum) else value))


@lru_cache(maxsize=64)
def _deadline(seconds: float, alias: str) -> tuple[str, list[Any]]:
    return columns.said(from_now(seconds), connections[alias])
