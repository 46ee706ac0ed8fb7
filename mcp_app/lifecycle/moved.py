"""Which watched requests moved, and what is told of them and of what happened: one statement for all, and nothing read
of the others.

It is written out because every call pays for it. Refuses to say what a row means.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from mcp_app import databases
from mcp_app.lifecycle import columns, prepared
from mcp_app.models import Request, RequestEvent
from mcp_app.states import TERMINAL, EventKind, Status

_TOLD = frozenset({
    "id", "tool", "event_seq", "status", "result", "error", "cancel_cause", "cancel_reason", "questions", "input_round",
    "follower", "redacted", "originals",
})  # fmt: skip
_ROWS = columns.Rows(Request, _TOLD)
_NEEDED = ", ".join(f"'{status}'" for status in sorted((*TERMINAL, Status.INPUT_REQUIRED)))
_ORIGINALS = f"CASE WHEN moved.status IN ({_NEEDED}) THEN moved.originals END"
"""Of a call that runs they are its arguments: not to be read with each progress."""
_TOLD_KINDS = ", ".join(f"'{kind}'" for kind in (EventKind.PROGRESS, EventKind.LOG))
MOST_TOLD = 100
"""Events of one request at a time: how much a tool has said meanwhile is not to be what a server process takes."""
_EVENTS = f"""FROM (SELECT told.seq, told.kind, told.data FROM {RequestEvent._meta.db_table} AS told
WHERE told.request_id = moved.id AND told.seq > known.event_seq AND told.kind IN ({_TOLD_KINDS})
ORDER BY told.seq LIMIT {MOST_TOLD}) AS told"""  # noqa: S608 - of ours
_AS_JSON = {
    "sqlite": f"(SELECT json_group_array(json_array(told.seq, told.kind, json(told.data))) {_EVENTS})",
    "postgresql": f"""(SELECT jsonb_agg(jsonb_build_array(told.seq, told.kind, told.data) ORDER BY told.seq)
{_EVENTS})""",
}
"""What those want to hear of: an array of (number, kind, data), or null."""
_RAN_FOR = {
    "sqlite": "(JULIANDAY(moved.finished_at) - JULIANDAY(moved.claimed_at)) * 86400.0",
    "postgresql": "EXTRACT(EPOCH FROM moved.finished_at - moved.claimed_at)::float8",
}
_SELECT = f"""
SELECT CASE WHEN known.wants_events THEN {{events}} END, {{ran_for}},
{", ".join(_ORIGINALS if field.attname == "originals" else f"moved.{field.column}" for field in _ROWS.fields)}
FROM {{known}} WHERE moved.event_seq > known.event_seq
"""  # noqa: S608 - of ours
_REQUESTS = Request._meta.db_table
_KNOWN = {
    # CROSS, OFFSET 0: a database goes through the watched, and looks each up, whatever it takes the table for.
    "sqlite": f"""(
SELECT key AS id, json_extract(value, '$[0]') AS event_seq, json_extract(value, '$[1]') AS wants_events
FROM json_each(%s)) AS known CROSS JOIN {_REQUESTS} AS moved ON moved.id = known.id""",  # noqa: S608 - a name of the model's
    # JSON: of an array PostgreSQL sees how long it is, and plans anew for each.
    "postgresql": f"""jsonb_to_recordset(%s::jsonb) AS known (id uuid, event_seq bigint, wants_events boolean)
CROSS JOIN LATERAL (SELECT * FROM {_REQUESTS} WHERE {_REQUESTS}.id = known.id OFFSET 0) AS moved""",  # noqa: S608 - a name of the model's
}

_STATEMENTS = {
    vendor: _SELECT.format(known=_KNOWN[vendor], events=_AS_JSON[vendor], ran_for=_RAN_FOR[vendor]) for vendor in _KNOWN
}

Told = list[tuple[int, str, dict[str, Any]]]
"""Events that a client hears of, in order: number, kind, data."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What a waiter knows of one request and whether it wants its progress and log lines."""

    event_seq: int = 0
    wants_events: bool = False


class Moved(NamedTuple):
    """A request that has moved."""

    row: Request
    told: Told
    ran_for: float | None
    """The seconds of its run, once that has ended."""

    @property
    def has_more(self) -> bool:
        """Whether it has moved past what is told, which another look reads."""
        return len(self.told) == MOST_TOLD and self.told[-1][0] < self.row.event_seq


def since(known: Mapping[UUID, Watch]) -> list[Moved]:
    """The requests whose newest event is newer than the one known of, with what is told of them, `MOST_TOLD` of each at
    most: all of one moment."""
    connection = databases.connection()
    found = prepared.rows(connection, _STATEMENTS[connection.vendor], [_parameter(known, connection.vendor)])
    return [Moved(_ROWS.made_of(row, connection), _told(events), ran_for) for events, ran_for, *row in found]


def _parameter(known: Mapping[UUID, Watch], vendor: str) -> str:
    if vendor == "sqlite":
        return json.dumps({key.hex: (watch.event_seq, watch.wants_events) for key, watch in known.items()})
    watched = known.items()
    return json.dumps(
        [{"id": str(key), "event_seq": watch.event_seq, "wants_events": watch.wants_events} for key, watch in watched]
    )


def _told(events: str | None) -> Told:
    return [] if events is None else [(seq, kind, data) for seq, kind, data in json.loads(events)]
