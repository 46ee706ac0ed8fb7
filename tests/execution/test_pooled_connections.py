"""No call keeps a connection of a psycopg pool (`OPTIONS["pool"]`) for ever."""

from types import SimpleNamespace
from typing import Any

from mcp_app.execution.process import slots


def test_what_is_closed_after_a_call_is_given_back_to_its_pool_which_replaces_it() -> None:
    done = []
    pool = SimpleNamespace(putconn=lambda raw: done.append("given back"))
    raw = SimpleNamespace(close=lambda: done.append("closed"), _pool=pool)
    wrapper: Any = SimpleNamespace(connection=raw)
    slots.ToolConnections().leave_threads([wrapper])
    assert done == ["closed", "given back"]
