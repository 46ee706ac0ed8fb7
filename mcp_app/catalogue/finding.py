"""What is read before a call is stored, by one statement: its tool's row, and how much room there is for one more call.

Written out because every call pays for it. Refuses to know why a call is not taken: `catalogue` and `call_limits` do.
"""

from dataclasses import dataclass
from typing import NamedTuple

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import call_limits, catalogue, rights
from mcp_app.catalogue.call_limits import Excess
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.registry import registered_tools
from mcp_app.lifecycle import columns, prepared, room
from mcp_app.lifecycle.columns import Condition
from mcp_app.models import Tool

_ROWS = columns.Rows(Tool)
_NAME = _ROWS.names.index("name")
_COLUMNS = ", ".join(f"tool.{field.column}" for field in _ROWS.fields)
_AS_TEXT = {
    "postgresql": "CASE WHEN tool.name IS NOT NULL THEN tool::text END",
    "sqlite": f"CASE WHEN tool.name IS NOT NULL THEN json_array({_COLUMNS}) END",
}
"""The whole row, by vendor: null where there is none."""
_SELECT = f"""
SELECT {room.COUNTS}, {{as_text}}, {_COLUMNS}
FROM (SELECT 1 AS one) AS here LEFT JOIN {Tool._meta.db_table} AS tool ON tool.name = %s
"""  # noqa: S608 - its names are constants of ours
_STATEMENTS = {vendor: _SELECT.format(as_text=text) for vendor, text in _AS_TEXT.items()}
_IS_AS_IT_WAS = {
    vendor: f"(SELECT {text} FROM {Tool._meta.db_table} AS tool WHERE tool.name = %s) {same} %s"  # noqa: S608 - names of ours
    for vendor, text, same in (
        ("postgresql", _AS_TEXT["postgresql"], "IS NOT DISTINCT FROM"),
        ("sqlite", _AS_TEXT["sqlite"], "IS"),
    )
}


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that a caller is offered, and what they had open, and what waited for a worker, when it was read."""

    tool: OfferedTool
    own: int
    queued: int

    def excess(self, principal: Principal, own: int = 0, queued: int = 0) -> Excess | None:
        """As `call_limits.lack_of_room`, with so many more that are being stored now."""
        return call_limits.told(room.judged(principal, self.own + own, self.queued + queued, beside=own))


class _Seen(NamedTuple):
    """A tool's row when it was read last."""

    text: str | None
    row: Tool | None


_seen: dict[str, _Seen] = {}


def find(name: str, principal: Principal) -> Found | None:
    """As `catalogue.find`, and how much room there is."""
    tool = registered_tools().get(name)
    if tool is None or not rights.is_granted(tool.access, principal):
        return None
    connection = databases.connection()
    parameters = (*room.parameters(principal), name)
    [(own, queued, text, *values)] = prepared.rows(connection, _STATEMENTS[connection.vendor], parameters)
    row = None if values[_NAME] is None else _ROWS.made_of(values, connection)
    _seen[name] = _Seen(text, row)
    offered = catalogue.offer(tool, row)
    return None if offered is None else Found(offered, own, queued)


def expect(name: str, principal: Principal) -> tuple[Found, Condition] | None:
    """What `find` would find where nothing has changed since it was asked last, and what is so then.

    Reads no row. A call may be stored where that holds, by one statement, and none of another has to be asked before.
    """
    tool = registered_tools().get(name)
    if tool is None or (seen := _seen.get(name)) is None or not rights.is_granted(tool.access, principal):
        return None
    if (offered := catalogue.offer(tool, seen.row)) is None:
        return None
    left = room.is_left(principal)
    is_as_it_was = _IS_AS_IT_WAS[databases.connection().vendor]
    condition = Condition(f"{left.text} AND {is_as_it_was}", (*left.parameters, name, seen.text))
    return Found(offered, 0, 0), condition
