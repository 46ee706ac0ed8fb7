"""Which watched requests moved, and what is told of them: one statement for all, and nothing read of the others.

It is written out because every call pays for it. Refuses to say what a row means.
"""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mcp_app import databases
from mcp_app.lifecycle import columns, prepared
from mcp_app.models import Request
from mcp_app.states import TERMINAL, Status

_TOLD = frozenset({
    "id", "event_seq", "status", "result", "error", "cancel_cause", "cancel_reason", "questions", "input_round",
    "follower", "redacted", "originals",
})  # fmt: skip
_ROWS = columns.Rows(Request, _TOLD)
_NEEDED = ", ".join(f"'{status}'" for status in sorted((*TERMINAL, Status.INPUT_REQUIRED)))
_ORIGINALS = f"CASE WHEN moved.status IN ({_NEEDED}) THEN moved.originals END"
"""Of a call that runs they are its arguments: not to be read with each progress."""
_SELECT = f"""
SELECT {", ".join(_ORIGINALS if field.attname == "originals" else f"moved.{field.column}" for field in _ROWS.fields)}
FROM {{known}} {Request._meta.db_table} AS moved ON moved.id = known.id WHERE moved.event_seq > known.event_seq
"""  # noqa: S608 - names and values are constants of ours
_KNOWN = {
    # CROSS: SQLite goes through the watched, and looks each up.
    "sqlite": "(SELECT key AS id, value AS event_seq FROM json_each(%s)) AS known CROSS JOIN",
    "postgresql": "unnest(%s::uuid[], %s::bigint[]) AS known (id, event_seq) JOIN",
}


def since(known: Mapping[UUID, int]) -> list[Request]:
    """The requests whose newest event is newer than the one known of, with what is told of them."""
    connection = databases.connection()
    parameters: list[Any] = [list(known), list(known.values())]
    if connection.vendor == "sqlite":
        parameters = [json.dumps({request_id.hex: event_seq for request_id, event_seq in known.items()})]
    found = prepared.rows(connection, _SELECT.format(known=_KNOWN[connection.vendor]), parameters)
    return [_ROWS.made_of(row, connection) for row in found]
