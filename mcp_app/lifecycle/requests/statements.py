"""The four hand-written statements of a request's life: `submit`, `claim`, `append` and `end`.

Theory of operation
-------------------

Every other module uses the ORM. These four are written out because each of them must change a row and insert its events
in a single statement that commits by itself:

- `claim`, `append` and `end` run in the process of a tool. A tool that holds the interpreter stops every other thread
  of its process, for as long as it likes. If a thread had to return to Python between its write and its commit, it
  would keep the row's lock until then (on SQLite the lock of the whole file), and the tool could not be cancelled.
  A single statement takes its lock, writes and commits without the interpreter. On SQLite this holds only for
  statements that return no rows: with `RETURNING`, the lock is kept until the rows are fetched.
- `submit`, `claim` and `end` are the three writes that every call pays for: one round trip each, not four.

`claim`, `append` and `end` are compare-and-sets: the row's condition is in the statement, and the events are inserted
only if it holds. A number of an event is never used twice, because the same statement reserves it in `event_seq`. An
`end` is only for the usual end of a run: no cancellation is requested, no redacted value has to be kept or removed,
and the same client waits as when the run was claimed. In all other cases it changes nothing, and `transitions.finish`
decides with the row locked.

On PostgreSQL, a statement is a chain of common table expressions. The first updates the row, and the next inserts the
events for the rows that `RETURNING` gives. The condition is inside of a `CASE`. Otherwise the planner might use an
index on `status`, which contains all queued calls, instead of the primary key. `LIMIT` gives the planner the number of
rows in the JSON, for which it would assume a hundred.

SQLite has no statement that writes to two tables. There, a statement inserts into a temporary view whose columns are
the parameters, and the `INSTEAD OF` trigger of that view writes to both tables. View and trigger belong to one
connection and are created on first use. `total_changes` shows whether the trigger's `UPDATE` found its row.

`submit` and `append` take any number of requests, as a JSON array with an object for each: the parameter `given`. On
SQLite each object is a row of the view. Rows are written in the order of their keys, so that two statements that write
the same rows do not wait for each other for ever.

The next step may need columns of the row. PostgreSQL returns them. On SQLite a second statement reads them, which is
correct, because only the step that has just been taken may change them.

On MySQL and MariaDB, `claim`, `append` and `end` are texts of several statements (`mysql_steps`), and `submit` uses the
ORM: it locks no row that anybody else could wait for.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, JSONField, UUIDField

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.databases import Columns
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.requests import events, mysql_steps
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.mysql_steps import Step
from mcp_app.models import Request
from mcp_app.models.json_fields import OrderedJSONField
from mcp_app.states import EventKind, Status, sources


class Addition(NamedTuple):
    """Events to append to a running request, and the columns that change with them.

    The columns are `progress` with `progress_total` and `progress_message`, `stage`, or `error`.
    """

    request_id: UUID
    events: Sequence[Event]
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class _Statement:
    name: str
    parameters: tuple[str, ...]
    postgresql: str
    sqlite: str
    """The body of the trigger. A parameter is `NEW.name`, and the time is `NEW.now`."""
    sqlite_columns: str = ""
    """The columns to read on SQLite, which `postgresql` returns for the changed rows."""
    sqlite_returning: str = ""
    """A `RETURNING` clause. `claim`, `append` and `end` have none: SQLite keeps its lock until rows are fetched."""

    @cached_property
    def sqlite_insert(self) -> str:
        """The statement that fires the trigger, for each object of `given`."""
        names = ", ".join(self.parameters)
        values = ", ".join("given.value" if name == "given" else f"%({name})s" for name in self.parameters)
        source = "FROM json_each(%(given)s) AS given" if "given" in self.parameters else ""
        now = clock.NOW["sqlite"].replace("%", "%%")
        return f"INSERT INTO {self.name} ({names}, now) SELECT {values}, {now} {source} {self.sqlite_returning}"


_RUN = Columns(
    Request, "id", "method", "tool", "protocol_version", "arguments", "unredacted", "client_info",
    "client_capabilities", "trace_context", "language", "issuer", "subject", "client_id", "endpoint",
    "principal_label", "user_id", "scopes", "remote_address", "network", "status", "queued_at", "claimed_at",
    "input_round", "answers", "visited", "kept", "task_handle", "cancel_policy", "cooperative_grace",
    "hard_grace", "time_limit", "caller_limit", "parent", "depth", "server", "worker", "worker_pid", "killing",
    "event_seq",
)  # fmt: skip
"""The columns that a run needs, about half of the row."""

_BY_THE_CLOCK = ("submitted_at", "queued_at", "deadline_at")
_GIVEN = [field for field in Request._meta.concrete_fields if field.attname not in _BY_THE_CLOCK]
_GIVEN_NAMES = ", ".join(field.attname for field in _GIVEN)
_TEXTS = [field for field in Request._meta.concrete_fields if isinstance(field, CharField)]
_QUEUED = json.dumps(events.transition(Status.QUEUED).data)


def _is_from(target: Status) -> str:
    statuses = ", ".join(f"'{status}'" for status in sorted(sources(target)))
    return f"status IN ({statuses})"


_SUBMIT = _Statement(
    "mcp_submit",
    ("given", "longest"),
    postgresql=f"""
    WITH given AS (
        SELECT * FROM jsonb_populate_recordset(NULL::mcp_app_request, %(given)s::jsonb)
    ), stored AS (
        INSERT INTO mcp_app_request ({_GIVEN_NAMES}, submitted_at, queued_at, deadline_at)
        SELECT {_GIVEN_NAMES}, STATEMENT_TIMESTAMP(), STATEMENT_TIMESTAMP(),
            STATEMENT_TIMESTAMP() + LEAST(caller_limit, %(longest)s) * INTERVAL '1 second'
        FROM given RETURNING id
    ), story AS (
        INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
        SELECT id, 1, 'transition', '{_QUEUED}'::jsonb FROM stored
    )
    SELECT STATEMENT_TIMESTAMP()""",
    sqlite=f"""
    INSERT INTO mcp_app_request ({_GIVEN_NAMES}, submitted_at, queued_at, deadline_at)
    VALUES ({", ".join(f"json_extract(NEW.given, '$.{field.attname}')" for field in _GIVEN)}, NEW.now, NEW.now,
        STRFTIME('%Y-%m-%d %H:%M:%f', NEW.now,
            MIN(COALESCE(json_extract(NEW.given, '$.caller_limit'), NEW.longest), NEW.longest) || ' seconds'));
    INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
    VALUES (json_extract(NEW.given, '$.id'), 1, 'transition', '{_QUEUED}');""",
    sqlite_returning="RETURNING now",
)

_MAY_BE_CLAIMED = f"""{_is_from(Status.RUNNING)} AND (deadline_at IS NULL OR deadline_at > {{now}})
    AND (parent IS NULL OR EXISTS (
        SELECT 1 FROM mcp_app_request AS starter WHERE starter.id = mcp_app_request.parent
        AND starter.status = '{Status.RUNNING}' AND starter.cancel_requested_at IS NULL))"""
_CLAIM = _Statement(
    "mcp_claim",
    ("id", "worker", "worker_pid", "event"),
    postgresql=f"""
    WITH moved AS (
        UPDATE mcp_app_request SET event_seq = event_seq + 1, status = '{Status.RUNNING}', worker = %(worker)s,
            worker_pid = %(worker_pid)s, claimed_at = STATEMENT_TIMESTAMP(),
            deadline_at = STATEMENT_TIMESTAMP() + INTERVAL '1 second' * LEAST(
                time_limit, caller_limit - EXTRACT(EPOCH FROM STATEMENT_TIMESTAMP() - queued_at))
        WHERE id = %(id)s AND CASE WHEN {_MAY_BE_CLAIMED.format(now="STATEMENT_TIMESTAMP()")} THEN TRUE ELSE FALSE END
        RETURNING {", ".join(_RUN.names)}
    ), story AS (
        INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
        SELECT id, event_seq, 'transition', %(event)s::jsonb FROM moved
    )
    SELECT * FROM moved""",
    sqlite=f"""
    INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
    SELECT id, event_seq + 1, 'transition', NEW.event FROM mcp_app_request
    WHERE id = NEW.id AND {_MAY_BE_CLAIMED.format(now="NEW.now")};
    UPDATE mcp_app_request SET event_seq = event_seq + 1, status = '{Status.RUNNING}', worker = NEW.worker,
        worker_pid = NEW.worker_pid, claimed_at = NEW.now,
        deadline_at = STRFTIME('%Y-%m-%d %H:%M:%f', NEW.now, MIN(time_limit, COALESCE(
            caller_limit - (JULIANDAY(NEW.now) - JULIANDAY(queued_at)) * 86400.0, time_limit)) || ' seconds')
    WHERE id = NEW.id AND {_MAY_BE_CLAIMED.format(now="NEW.now")};""",
    sqlite_columns=f"SELECT {', '.join(_RUN.names)} FROM mcp_app_request WHERE id = %(id)s",
)

_CLAIMED_ON_MYSQL = {
    "claimed_at": "UTC_TIMESTAMP(6)",
    "deadline_at": """UTC_TIMESTAMP(6) + INTERVAL LEAST(time_limit, COALESCE(caller_limit
        - TIMESTAMPDIFF(MICROSECOND, queued_at, UTC_TIMESTAMP(6)) / 1e6, time_limit)) * 1e6 MICROSECOND""",
}

_SQLITE_MAY_BE_APPENDED_TO = f"""id = json_extract(NEW.given, '$.id') AND status = '{Status.RUNNING}'
    AND (json_extract(NEW.given, '$.stage') IS NULL OR stage < json_extract(NEW.given, '$.stage'))"""
_HAS_PROGRESS = "json_extract(NEW.given, '$.has_progress')"
_APPEND = _Statement(
    "mcp_append",
    ("given",),
    postgresql=f"""
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(%(given)s::jsonb) AS given (
            id uuid, events jsonb, has_progress boolean, progress double precision, progress_total double precision,
            progress_message text, stage smallint, error jsonb
        ) LIMIT %(count)s
    ), moved AS (
        UPDATE mcp_app_request AS request SET event_seq = event_seq + jsonb_array_length(given.events),
            progress = CASE WHEN has_progress THEN given.progress ELSE request.progress END,
            progress_total = CASE WHEN has_progress THEN given.progress_total ELSE request.progress_total END,
            progress_message = CASE WHEN has_progress THEN given.progress_message ELSE request.progress_message END,
            stage = COALESCE(given.stage, request.stage), error = COALESCE(given.error, request.error)
        FROM given WHERE request.id = given.id AND CASE
            WHEN status = '{Status.RUNNING}' AND (given.stage IS NULL OR request.stage < given.stage) THEN TRUE
            ELSE FALSE END
        RETURNING request.server, request.id, event_seq, given.events
    ), story AS (
        INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
        SELECT id, event_seq - jsonb_array_length(events) + place, event ->> 0, event -> 1
        FROM moved, jsonb_array_elements(events) WITH ORDINALITY AS t (event, place)
    )
    SELECT server, id FROM moved""",
    sqlite=f"""
    INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
    SELECT request.id, event_seq + 1 + event.key, json_extract(event.value, '$[0]'), json_extract(event.value, '$[1]')
    FROM mcp_app_request AS request, json_each(NEW.given, '$.events') AS event
    WHERE request.{_SQLITE_MAY_BE_APPENDED_TO};
    UPDATE mcp_app_request SET event_seq = event_seq + json_array_length(NEW.given, '$.events'),
        progress = CASE WHEN {_HAS_PROGRESS} THEN json_extract(NEW.given, '$.progress') ELSE progress END,
        progress_total = CASE WHEN {_HAS_PROGRESS} THEN json_extract(NEW.given, '$.progress_total')
            ELSE progress_total END,
        progress_message = CASE WHEN {_HAS_PROGRESS} THEN json_extract(NEW.given, '$.progress_message')
            ELSE progress_message END,
        stage = COALESCE(json_extract(NEW.given, '$.stage'), stage),
        error = COALESCE(json_extract(NEW.given, '$.error'), error)
    WHERE {_SQLITE_MAY_BE_APPENDED_TO};""",
    sqlite_columns="""
    SELECT server, request.id FROM json_each(%(given)s) AS given
    JOIN mcp_app_request AS request ON request.id = json_extract(given.value, '$.id')""",
)

_IS_ORDINARY = f"""{_is_from(Status.COMPLETED)} AND worker = {{worker}} AND NOT killing
    AND cancel_requested_at IS NULL AND error IS NULL AND unredacted IS NULL
    AND server {{same}} {{server}} AND task_handle {{same}} {{task_handle}}"""
_ORDINARY = {
    vendor: _IS_ORDINARY.format(
        same=same, **{name: marker.format(name) for name in ("worker", "server", "task_handle")}
    )
    for vendor, same, marker in (
        ("postgresql", "IS NOT DISTINCT FROM", "%({})s"),
        ("sqlite", "IS", "NEW.{}"),
        ("mysql", "<=>", "%s"),
    )
}
_END = _Statement(
    "mcp_end",
    ("id", "worker", "server", "task_handle", "status", "result", "error", "event"),
    postgresql=f"""
    WITH moved AS (
        UPDATE mcp_app_request SET event_seq = event_seq + 1, status = %(status)s, result = %(result)s,
            error = %(error)s::jsonb, finished_at = STATEMENT_TIMESTAMP(), deadline_at = NULL
        WHERE id = %(id)s AND CASE WHEN {_ORDINARY["postgresql"]} THEN TRUE ELSE FALSE END
        RETURNING id, event_seq
    ), story AS (
        INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
        SELECT id, event_seq, 'transition', %(event)s::jsonb FROM moved
    )
    SELECT id FROM moved""",
    sqlite=f"""
    INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)
    SELECT id, event_seq + 1, 'transition', NEW.event FROM mcp_app_request WHERE id = NEW.id AND {_ORDINARY["sqlite"]};
    UPDATE mcp_app_request SET event_seq = event_seq + 1, status = NEW.status, result = NEW.result, error = NEW.error,
        finished_at = NEW.now, deadline_at = NULL
    WHERE id = NEW.id AND {_ORDINARY["sqlite"]};""",
)


def submit(rows: Sequence[Request]) -> None:
    """Store QUEUED requests, each with its first event. Raises IntegrityError if there is one of them already."""
    connection = databases.connection()
    if connection.vendor == "mysql":
        _submit_by_orm(rows)
        return
    given = json.dumps([_columns(row, connection.vendor) for row in rows])
    with databases.atomic() if connection.in_atomic_block else nullcontext():  # a savepoint: it may fail
        [(now,), *_] = _run(_SUBMIT, {"given": given, "longest": float(settings.MAX_QUEUE_SECONDS)})
    for row in rows:
        row.submitted_at = row.queued_at = clock.parse(now)
        row._state.adding, row._state.db = False, connection.alias


def _submit_by_orm(rows: Sequence[Request]) -> None:
    now = clock.read()
    for row in rows:
        row.submitted_at = row.queued_at = now
        limit = math.inf if row.caller_limit is None else row.caller_limit
        row.deadline_at = now + timedelta(seconds=min(limit, settings.MAX_QUEUE_SECONDS))
        for field in _TEXTS:
            setattr(row, field.attname, storable(str(getattr(row, field.attname))))
    with databases.atomic():
        Request.objects.bulk_create(rows, batch_size=1)  # together they might exceed `max_allowed_packet`
        events.insert_all((row.pk, [events.transition(Status.QUEUED)], 1) for row in rows)


def claim(request_id: UUID, worker: UUID, pid: int) -> Request | None:
    """Claim a queued request for a worker, if its deadline has not passed and its parent, if any, need not stop.

    Return the row with the columns that a run needs and the others deferred, or `None` if it must not run.
    """
    event = json.dumps(events.transition(Status.RUNNING, pid=pid).data)
    if databases.connection().vendor == "mysql":
        step = Step(
            request_id,
            [(EventKind.TRANSITION, event)],
            _MAY_BE_CLAIMED.format(now="UTC_TIMESTAMP(6)"),
            columns={"status": Status.RUNNING.value, "worker": worker, "worker_pid": pid},
            expressions=_CLAIMED_ON_MYSQL,
        )
        found = mysql_steps.take([step], _RUN.names)
        return _RUN.row(found[0]) if found else None
    found = _run(_CLAIM, {"id": request_id, "worker": worker, "worker_pid": pid, "event": event})
    return _RUN.row(found[0]) if found else None


def append(additions: Sequence[Addition]) -> list[tuple[UUID | None, UUID]]:
    """Append events to requests that are running. A `stage` must be later than that of the row.

    Return the server process in which a client may wait, and the key, for each changed request. On SQLite, return them
    for all requests if any was changed.
    """
    vendor = databases.connection().vendor
    ordered = sorted(additions, key=lambda each: each.request_id)
    if vendor == "mysql":
        found = mysql_steps.take([_append_on_mysql(each) for each in ordered], ["server", "id"])
        return [(server and UUID(server), UUID(key)) for server, key in found]
    given = json.dumps([_addition(each, vendor) for each in ordered])
    found = _run(_APPEND, {"given": given, "count": len(additions)}, in_turn=False)
    if vendor == "sqlite":
        return [(server and UUID(server), UUID(key)) for server, key in found]
    return [(server, key) for server, key in found]


def _append_on_mysql(addition: Addition) -> Step:
    stage = addition.columns.get("stage")
    return Step(
        addition.request_id,
        [(event.kind, json.dumps(storable(event.data))) for event in addition.events],
        f"status = '{Status.RUNNING}' AND (%s IS NULL OR stage < %s)",
        [stage, stage],
        columns={
            name: json.dumps(storable(value)) if name == "error" else storable(value)
            for name, value in addition.columns.items()
        },
    )


def end(row: Request, status: Status, *, result: dict[str, Any] | None, error: dict[str, Any] | None) -> bool:
    """Store how the run of a claimed row came out. Returns whether its end was ordinary, so that it was stored."""
    event = json.dumps(storable(events.transition(status, error).data))
    values = {
        "id": row.pk,
        "worker": row.worker,
        "server": row.server,
        "task_handle": row.task_handle,
        "status": status.value,
        "result": None if result is None else json.dumps(result),
        "error": None if error is None else json.dumps(error),
        "event": event,
    }
    if databases.connection().vendor == "mysql":
        step = Step(
            row.pk,
            [(EventKind.TRANSITION, event)],
            _ORDINARY["mysql"],
            [row.worker, row.server, row.task_handle],
            columns={**{name: values[name] for name in ("status", "result", "error")}, "deadline_at": None},
            expressions={"finished_at": "UTC_TIMESTAMP(6)"},
        )
        return bool(mysql_steps.take([step], ["id"]))
    return bool(_run(_END, values))


def _columns(row: Request, vendor: str) -> dict[str, Any]:
    """Return a row's columns as JSON, as `submit` stores them."""
    values = {}
    for field in _GIVEN:
        value = getattr(row, field.attname)
        if value is not None and isinstance(field, UUIDField):
            value = _key(value, vendor)
        elif isinstance(field, CharField):
            value = storable(str(value))
        elif value is not None and isinstance(field, JSONField):
            is_text = vendor == "sqlite" or isinstance(field, OrderedJSONField)
            value = json.dumps(value) if is_text else value
        values[field.attname] = value
    return values


def _addition(addition: Addition, vendor: str) -> dict[str, Any]:
    return {
        "id": _key(addition.request_id, vendor),
        "events": [(event.kind.value, storable(event.data)) for event in addition.events],
        "has_progress": any(name.startswith("progress") for name in addition.columns),
        "progress_message": "",
        **{name: storable(value) for name, value in addition.columns.items()},
    }


def _key(key: UUID, vendor: str) -> str:
    return key.hex if vendor == "sqlite" else str(key)


def _run(statement: _Statement, values: Mapping[str, Any], *, in_turn: bool = True) -> list[tuple[Any, ...]]:
    """Run a statement. Return its columns for each changed row, or an empty list if it changed none.

    `in_turn`: whether to wait for a turn to write, on SQLite. It must be false where a tool may stop the thread
    that has the turn.
    """
    connection = databases.connection()
    if connection.vendor != "sqlite":
        return databases.rows(connection, statement.postgresql, values)
    _make_on_sqlite(statement, connection)
    values = {name: value.hex if isinstance(value, UUID) else value for name, value in values.items()}
    before = connection.connection.total_changes
    with databases.turn(connection) if in_turn else nullcontext():
        found = databases.rows(connection, statement.sqlite_insert, values)
    if connection.connection.total_changes == before:
        return []
    return databases.rows(connection, statement.sqlite_columns, values) if statement.sqlite_columns else found or [()]


_made: "WeakKeyDictionary[BaseDatabaseWrapper, tuple[object, set[str]]]" = WeakKeyDictionary()
"""The views that each connection has."""


def _make_on_sqlite(statement: _Statement, connection: BaseDatabaseWrapper) -> None:
    connection.ensure_connection()
    own, names = _made.get(connection, (None, set()))
    if own is not connection.connection:
        own, names = _made[connection] = (connection.connection, set())
    if statement.name in names:
        return
    columns = ", ".join(f"NULL AS {name}" for name in (*statement.parameters, "now"))
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMP VIEW IF NOT EXISTS {statement.name} AS SELECT {columns}")
        cursor.execute(
            f"CREATE TEMP TRIGGER IF NOT EXISTS {statement.name}_insert INSTEAD OF INSERT ON {statement.name}"
            f" BEGIN {statement.sqlite} END"
        )
    if not connection.in_atomic_block:  # whose end may take them back
        names.add(statement.name)
