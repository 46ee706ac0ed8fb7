"""Events appended to a running request.

It is the step that is taken while a tool's body runs, in the tool's own process, and a tool that holds the interpreter
stops every other thread of its process between two statements, for as long as it likes. So it is one statement, or
whoever cancels that very tool would wait for the row's lock.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from mcp_app.lifecycle import statements
from mcp_app.lifecycle.columns import Rows
from mcp_app.lifecycle.events import Event, storable
from mcp_app.lifecycle.locks import insistent
from mcp_app.lifecycle.statements import Dialect, Step
from mcp_app.models import Request
from mcp_app.states import Status

_WHO_WAITS = Rows(Request, {"id", "event_seq", "server"})


@insistent
def append(request_id: UUID, told: Sequence[Event], **columns: Any) -> bool:
    """Append events to a running request and change columns with them; False when it is running no more.

    `stage` only rises: False as well when that one was reached before.
    """
    return statements.take(_step(tuple(columns)), told, _values(request_id, columns))


@insistent
def appended(request_id: UUID, told: Sequence[Event], **columns: Any) -> Request | None:
    """The same; of the row, which is None where `append` is False, the server in which its client waits."""
    return statements.taken(_step(tuple(columns)), told, _values(request_id, columns), _WHO_WAITS)


def _values(request_id: UUID, columns: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": request_id, **{name: storable(value) for name, value in columns.items()}}


@cache
def _step(columns: tuple[str, ...]) -> Step:
    def condition(dialect: Dialect) -> str:
        running = f"{{requests}}.status = '{Status.RUNNING}'"
        return f"{running} AND {{requests}}.stage < {{stage}}" if "stage" in columns else running

    def assignments(dialect: Dialect) -> Mapping[str, str]:
        return {column: f"{{{column}}}" for column in columns}

    return Step("_".join(("mcp_append", *columns)), condition, assignments, columns, in_turn=False)
