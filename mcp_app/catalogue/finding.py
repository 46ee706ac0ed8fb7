"""What is read before a call is stored, by one statement: its tool's row, and how much room there is for one more call.

Written out because every call pays for it. Refuses to know why a call is not taken: `catalogue` and `call_limits` do.
"""

from dataclasses import dataclass

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import call_limits, catalogue, rights
from mcp_app.catalogue.call_limits import Excess
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.registry import registered_tools
from mcp_app.lifecycle import columns, prepared, room
from mcp_app.models import Tool

_ROWS = columns.Rows(Tool)
_NAME = _ROWS.names.index("name")
_SELECT = f"""
SELECT {room.COUNTS}, {", ".join(f"tool.{field.column}" for field in _ROWS.fields)}
FROM (SELECT 1 AS one) AS here LEFT JOIN {Tool._meta.db_table} AS tool ON tool.name = %s
"""  # noqa: S608 - its names are constants of ours


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that a caller is offered, and what they had open, and what waited for a worker, when it was read."""

    tool: OfferedTool
    own: int
    queued: int

    def excess(self, principal: Principal, own: int = 0, queued: int = 0) -> Excess | None:
        """As `call_limits.crowd`, with so many more that are being stored now."""
        return call_limits.told(room.judged(principal, self.own + own, self.queued + queued, beside=own))


def find(name: str, principal: Principal) -> Found | None:
    """As `catalogue.find`, and how much room there is."""
    tool = registered_tools().get(name)
    if tool is None or not rights.is_granted(tool.access, principal):
        return None
    connection = databases.connection()
    [(own, queued, *values)] = prepared.rows(connection, _SELECT, (*room.parameters(principal), name))
    row = None if values[_NAME] is None else _ROWS.made_of(values, connection)
    offered = catalogue.offer(tool, row)
    return None if offered is None else Found(offered, own, queued)
