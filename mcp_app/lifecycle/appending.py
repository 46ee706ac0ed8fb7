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
from mcp_app.lifecycle.events import Event, storable
from mcp_app.lifecycle.locks import insistent
from mcp_app.lifecycle.statements import Dialect, Step
from mcp_app.states import Status


@insistent
def append(request_id: UUID, told: Sequence[Event], **columns: Any) -> bool:
    """Append events to a running request and change columns with them; False when it is running no more.

    `stage` only rises: False as well when that one was reached before.
    """
    values = {name: storable(value) for name, value in columns.items()}
    return statements.take(_step(tuple(columns)), told, {"id": request_id, **values})


@cache
def _step(columns: tuple[str, ...]) -> Step:
    def condition(dialect: Dialect) -> str:
        running = f"{{requests}}.status = '{Status.RUNNING}'"
        return f"{running} AND {{requests}}.stage < {{stage}}" if "stage" in columns else running

    def assignments(dialect: Dialect) -> Mapping[str, str]:
        return {column: f"{{{column}}}" for column in columns}

    return Step("_".join(("mcp_append", *columns)), condition, assignments, columns, in_turn=False)
