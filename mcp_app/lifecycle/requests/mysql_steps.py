"""Steps of requests on MySQL and MariaDB.

A step is a text of several statements, which the server executes without waiting for the client in between. So a tool
that holds the interpreter cannot stop a step between its write and its commit, like on the other databases. The client
library must allow such texts; mysqlclient does so unless `OPTIONS` forbids it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import Error
from django.db.models import UUIDField

from mcp_app import databases


@dataclass(frozen=True)
class Step:
    """A change of a request, which is made if its row fulfils `condition`.

    `condition` is SQL with a placeholder for each of `condition_values`. `columns` are changed to values, and
    `expressions` to SQL.
    """

    request_id: UUID
    events: Sequence[tuple[str, str]]
    """Kind and JSON of each event."""
    condition: str
    condition_values: Sequence[Any] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    expressions: Mapping[str, str] = field(default_factory=dict)

    def statements(self) -> tuple[list[str], list[Any]]:
        """Return the statements that lock the row, insert the events and change the row, and their parameters."""
        changes = [f"{name} = %s" for name in self.columns] + [
            f"{name} = {sql}" for name, sql in self.expressions.items()
        ]
        story = "INSERT INTO mcp_app_requestevent (request_id, seq, kind, data)"
        texts = [
            "SET @mcp_id = NULL",
            f"SELECT id INTO @mcp_id FROM mcp_app_request WHERE id = %s AND {self.condition} FOR UPDATE",
            *(
                f"{story} SELECT id, event_seq + %s, %s, %s FROM mcp_app_request WHERE id = @mcp_id"
                for _ in self.events
            ),
            f"UPDATE mcp_app_request SET {', '.join(['event_seq = event_seq + %s', *changes])} WHERE id = @mcp_id",
        ]
        parameters = [_parameter(self.request_id), *map(_parameter, self.condition_values)]
        for number, event in enumerate(self.events, 1):
            parameters += [number, *event]
        return texts, [*parameters, len(self.events), *map(_parameter, self.columns.values())]


def take(steps: Sequence[Step], returning: Sequence[str]) -> list[tuple[Any, ...]]:
    """Take the steps in one transaction. Return these columns of each row that was changed, with their new values."""
    connection = databases.connection()
    texts: list[str] = []
    parameters: list[Any] = []
    for step in steps:
        own_texts, own_parameters = step.statements()
        texts += [*own_texts, f"SELECT {', '.join(returning)} FROM mcp_app_request WHERE id = @mcp_id"]
        parameters += own_parameters
    if connection.in_atomic_block:
        return _execute(texts, parameters)
    try:
        return _execute(["START TRANSACTION", *texts, "COMMIT"], parameters)
    except BaseException:
        # Its transaction may be open. After an interrupt, there may also be results that were not read.
        with suppress(Error):
            connection.close()
        raise


def _execute(texts: Sequence[str], parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    with databases.connection().cursor() as cursor:
        cursor.execute(";\n".join(texts), parameters)
        is_more = True
        while is_more:
            if cursor.description:
                found += cursor.fetchall()
            is_more = cursor.nextset()
    return found


def _parameter(value: Any) -> Any:
    if isinstance(value, UUID):
        return UUIDField().get_db_prep_value(value, databases.connection())
    return value
