"""Events appended to a running request, in one statement outside a transaction.

It is the step that is taken while a tool's body runs, in the tool's own process, and a tool that holds the interpreter
stops every other thread of its process between two statements, for as long as it likes. A transaction would keep the
row's lock meanwhile, on SQLite everybody's, and whoever cancels that very tool would wait for it. A statement alone
takes its lock, writes and commits without the interpreter.
"""

import json
import threading
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app import databases
from mcp_app.lifecycle import events
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import insistent
from mcp_app.models import Request, RequestEvent
from mcp_app.states import Status

_POSTGRESQL = """
WITH moved AS (
    UPDATE {requests} SET event_seq = event_seq + %(count)s{assignments}
    WHERE id = %(id)s AND {condition} RETURNING id, event_seq
), told AS (
    INSERT INTO {events} (request_id, seq, kind, data)
    SELECT moved.id, moved.event_seq - %(count)s + t.place, t.event ->> 0, (t.event ->> 1)::jsonb
    FROM moved, jsonb_array_elements(%(events)s::jsonb) WITH ORDINALITY AS t (event, place)
)
SELECT count(*) FROM moved
"""
_SQLITE_VIEW = "CREATE TEMP VIEW IF NOT EXISTS {name} AS SELECT {columns} FROM (SELECT NULL)"
_SQLITE_TRIGGER = """
CREATE TEMP TRIGGER IF NOT EXISTS {name}_insert INSTEAD OF INSERT ON {name} BEGIN
    INSERT INTO {events} (request_id, seq, kind, data)
    SELECT {requests}.id, event_seq + 1 + t.key, json_extract(t.value, '$[0]'), json_extract(t.value, '$[1]')
    FROM {requests}, json_each(NEW.events) AS t WHERE {requests}.id = NEW.id AND {condition};
    UPDATE {requests} SET event_seq = event_seq + NEW.count{assignments} WHERE id = NEW.id AND {condition};
END
"""
_SQLITE_INSERT = "INSERT INTO {name} ({names}) VALUES ({values})"


class _Made(threading.local):
    """The views that the connection of a thread has."""

    connection: object = None
    names: set[str]

    def on(self, connection: object) -> set[str]:
        if self.connection is not connection:
            self.connection, self.names = connection, set()
        return self.names


_made = _Made()


@insistent
def append(request_id: UUID, told: Sequence[Event], **columns: Any) -> bool:
    """Append events to a running request and change columns with them; False when it is running no more.

    `stage` only rises: False as well when that one was reached before.
    """
    connection = databases.connection()
    values = {"id": request_id, **columns}
    fields = [field for field in Request._meta.concrete_fields if field.name in values]
    parameters = {
        field.name: field.get_db_prep_save(events.storable(values[field.name]), connection) for field in fields
    }
    parameters |= {"count": len(told), "events": _as_json(told)}
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            return _append_on_sqlite(connection, cursor, parameters, tuple(columns))
        cursor.execute(_sql(_POSTGRESQL, "%({})s", tuple(columns)), parameters)
        return bool(cursor.fetchone()[0])


def _append_on_sqlite(
    connection: BaseDatabaseWrapper, cursor: Any, parameters: dict[str, Any], columns: tuple[str, ...]
) -> bool:
    """By a trigger of this connection's own: SQLite has no other statement that writes to two tables."""
    name = "_".join(("mcp_append", *columns))
    if name not in _made.on(connection.connection):
        cursor.execute(_SQLITE_VIEW.format(name=name, columns=", ".join(f"NULL AS {each}" for each in parameters)))
        cursor.execute(_sql(_SQLITE_TRIGGER, "NEW.{}", columns, name=name))
        if not connection.in_atomic_block:  # whose end may take them back
            _made.names.add(name)
    changed = connection.connection.total_changes
    values = ", ".join(f"%({each})s" for each in parameters)
    cursor.execute(_SQLITE_INSERT.format(name=name, names=", ".join(parameters), values=values), parameters)
    return bool(connection.connection.total_changes > changed)


def _sql(template: str, value: str, columns: tuple[str, ...], **names: str) -> str:
    """`value` is how the statement names a column's new value."""
    conditions = [f"status = '{Status.RUNNING}'"]
    if "stage" in columns:
        conditions.append(f"stage < {value.format('stage')}")
    return template.format(
        requests=Request._meta.db_table,
        events=RequestEvent._meta.db_table,
        condition=" AND ".join(conditions),
        assignments="".join(f", {column} = {value.format(column)}" for column in columns),
        **names,
    )


def _as_json(told: Sequence[Event]) -> str:
    return json.dumps([(event.kind.value, json.dumps(events.storable(event.data))) for event in told])
