"""Progress and log lines of many running requests, told by one statement: as `transitions.record` tells those of one.

Where hundreds of calls share a process, their reports of one moment would wait for one another. It is one statement for
the reason that `appending` has. Refuses what is told of a request that runs no more.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app import databases
from mcp_app.lifecycle import prepared, statements, wakeups
from mcp_app.lifecycle.events import Event, storable
from mcp_app.lifecycle.locks import insistent
from mcp_app.models import Request, RequestEvent
from mcp_app.states import Status

COLUMNS = ("progress", "progress_total", "progress_message")
"""What a report of progress changes in its row, all of them."""

_WORDS = {
    "requests": Request._meta.db_table,
    "told": f"INSERT INTO {RequestEvent._meta.db_table} (request_id, seq, kind, data)",
    "running": f"status = '{Status.RUNNING}'",
}
_POSTGRESQL = """
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb)
    AS given (id uuid, count integer, events jsonb, changes boolean, {types})
), moved AS (
    UPDATE {requests} SET event_seq = event_seq + given.count, {assignments} FROM given
    WHERE {requests}.id = given.id AND CASE WHEN {requests}.{running} THEN TRUE ELSE FALSE END
    RETURNING {requests}.id, {requests}.event_seq, {requests}.server, given.count, given.events
), told AS (
    {told} SELECT moved.id, moved.event_seq - moved.count + t.place, t.event ->> 0, (t.event ->> 1)::jsonb
    FROM moved, jsonb_array_elements(moved.events) WITH ORDINALITY AS t (event, place)
) SELECT server, id FROM moved
"""
_SQLITE_VIEW = "CREATE TEMP VIEW IF NOT EXISTS mcp_report AS SELECT {nothing} FROM (SELECT NULL)"
_SQLITE_TRIGGER = """
CREATE TEMP TRIGGER IF NOT EXISTS mcp_report_insert INSTEAD OF INSERT ON mcp_report BEGIN
    {told} SELECT {requests}.id, event_seq + 1 + t.key, json_extract(t.value, '$[0]'), json_extract(t.value, '$[1]')
    FROM {requests}, json_each(NEW.events) AS t WHERE {requests}.id = NEW.id AND {running};
    UPDATE {requests} SET event_seq = event_seq + NEW.count, {assignments} WHERE {requests}.id = NEW.id AND {running};
END
"""
_SQLITE_INSERT = "INSERT INTO mcp_report ({names}) SELECT {values} FROM json_each(%s)"
_SQLITE_SERVERS = """
SELECT {requests}.server, {requests}.id FROM json_each(%s) AS given
JOIN {requests} ON {requests}.id = json_extract(given.value, '$.id')
"""
_NAMES = ("id", "count", "events", "changes", *COLUMNS)


class Report(NamedTuple):
    """What is told of one request, and what changes with it: nothing, or all of `COLUMNS`."""

    request_id: UUID
    events: Sequence[Event]
    columns: Mapping[str, Any]


def record_all(reports: Sequence[Report]) -> None:
    """Append the events of running requests, and wake those who wait for them."""
    told = _told(reports)
    databases.on_commit(partial(wakeups.wake_those, told))  # what is told is told, whatever becomes of the word


@insistent
def _told(reports: Sequence[Report]) -> list[tuple[UUID | None, UUID]]:
    """Of which requests something was told: the server in which somebody may wait for it, and the request."""
    connection = databases.connection()
    # In one order: whoever locks several rows at once is not to meet another who has them the other way round.
    given = json.dumps([_given(each, connection) for each in sorted(reports, key=lambda each: each.request_id)])
    if connection.vendor != "sqlite":
        return [(server, request_id) for server, request_id in prepared.rows(connection, _on_postgresql(), [given])]
    view, trigger, insert, servers = _on_sqlite()
    statements.make_on_sqlite("mcp_report", (view, trigger), connection)
    prepared.rows(connection, insert, [given])
    told = prepared.rows(connection, servers, [given])
    return [(server and UUID(server), UUID(request_id)) for server, request_id in told]


def _given(report: Report, connection: BaseDatabaseWrapper) -> dict[str, Any]:
    key = report.request_id
    return {
        "id": key.hex if connection.vendor == "sqlite" else str(key),
        "count": len(report.events),
        "events": [(event.kind.value, json.dumps(storable(event.data))) for event in report.events],
        "changes": bool(report.columns),
        **{name: storable(report.columns.get(name)) for name in COLUMNS},
    }


@cache
def _on_postgresql() -> str:
    types = {"progress": "double precision", "progress_total": "double precision", "progress_message": "text"}
    return _POSTGRESQL.format(
        **_WORDS,
        types=", ".join(f"{name} {types[name]}" for name in COLUMNS),
        assignments=_assignments("given"),
    )


@cache
def _on_sqlite() -> tuple[str, str, str, str]:
    return (
        _SQLITE_VIEW.format(nothing=", ".join(f"NULL AS {name}" for name in _NAMES)),
        _SQLITE_TRIGGER.format(**_WORDS, assignments=_assignments("NEW")),
        _SQLITE_INSERT.format(
            names=", ".join(_NAMES), values=", ".join(f"json_extract(value, '$.{name}')" for name in _NAMES)
        ),
        _SQLITE_SERVERS.format(**_WORDS),
    )


def _assignments(source: str) -> str:
    before = _WORDS["requests"]
    return ", ".join(
        f"{name} = CASE WHEN {source}.changes THEN {source}.{name} ELSE {before}.{name} END" for name in COLUMNS
    )
