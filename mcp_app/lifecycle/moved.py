"""Which watched requests moved, and what is told of them and of what happened: one statement for all, and nothing read
of the others.

It is written out because every call pays for it. Refuses to say what a row means.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mcp_app import databases
from mcp_app.lifecycle import columns, prepared
from mcp_app.models import Request, RequestEvent
from mcp_app.states import TERMINAL, EventKind, Status

_TOLD = frozenset({
    "id", "event_seq", "status", "result", "error", "cancel_cause", "cancel_reason", "questions", "input_round",
    "follower", "redacted", "originals",
})  # fmt: skip
_ROWS = columns.Rows(Request, _TOLD)
_NEEDED = ", ".join(f"'{status}'" for status in sorted((*TERMINAL, Status.INPUT_REQUIRED)))
_ORIGINALS = f"CASE WHEN moved.status IN ({_NEEDED}) THEN moved.originals END"
"""Of a call that runs they are its arguments: not to be read with each progress."""
_TOLD_KINDS = ", ".join(f"'{kind}'" for kind in (EventKind.PROGRESS, EventKind.LOG))
_EVENTS = f"""FROM {RequestEvent._meta.db_table} AS told WHERE told.request_id = moved.id
AND told.seq > known.event_seq AND told.kind IN ({_TOLD_KINDS})"""
_AS_JSON = {
    "sqlite": f"""(SELECT json_group_array(json_array(seq, kind, json(data)))
FROM (SELECT told.seq, told.kind, told.data {_EVENTS} ORDER BY told.seq))""",  # noqa: S608 - of ours
    "postgresql": f"""(SELECT jsonb_agg(jsonb_build_array(told.seq, told.kind, told.data) ORDER BY told.seq)
{_EVENTS})""",
}
"""What those want to hear of: an array of (number, kind, data), or null."""
_SELECT = f"""
SELECT CASE WHEN known.wants_events THEN {{events}} END,
{", ".join(_ORIGINALS if field.attname == "originals" else f"moved.{field.column}" for field in _ROWS.fields)}
FROM {{known}} {Request._meta.db_table} AS moved ON moved.id = known.id WHERE moved.event_seq > known.event_seq
"""  # noqa: S608 - of ours
_KNOWN = {
    # CROSS: SQLite goes through the watched, and looks each up.
    "sqlite": """(
SELECT key AS id, json_extract(value, '$[0]') AS event_seq, json_extract(value, '$[1]') AS wants_events
FROM json_each(%s)) AS known CROSS JOIN""",
    "postgresql": "unnest(%s::uuid[], %s::bigint[], %s::boolean[]) AS known (id, event_seq, wants_events) JOIN",
}

Told = list[tuple[int, str, dict[str, Any]]]
"""Events that a client hears of, in order: number, kind, data."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What a waiter knows of one request and whether it wants its progress and log lines."""

    event_seq: int = 0
    wants_events: bool = False


def since(known: Mapping[UUID, Watch]) -> list[tuple[Request, Told]]:
    """The requests whose newest event is newer than the one known of, with what is told of them: all of one moment."""
    connection = databases.connection()
    statement = _SELECT.format(known=_KNOWN[connection.vendor], events=_AS_JSON[connection.vendor])
    found = prepared.rows(connection, statement, _parameters(known, connection.vendor))
    return [(_ROWS.made_of(row, connection), _told(events)) for events, *row in found]


def _parameters(known: Mapping[UUID, Watch], vendor: str) -> list[Any]:
    if vendor == "sqlite":
        watched = {key.hex: (watch.event_seq, watch.wants_events) for key, watch in known.items()}
        return [json.dumps(watched)]
    watches = known.values()
    return [list(known), [each.event_seq for each in watches], [each.wants_events for each in watches]]


def _told(events: str | None) -> Told:
    return [] if events is None else [(seq, kind, data) for seq, kind, data in json.loads(events)]
