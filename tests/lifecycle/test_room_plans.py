"""Limits are counted with indexes of open calls, so that a caller's past calls cost nothing."""

from mcp_app import databases
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.requests import transitions
from mcp_app.states import Status
from tests.support import rows
from tests.support.rows import OWNER, RESULT

ENDED = 400 if databases.connection().vendor == "mysql" else 40  # MySQL reads a small table as a whole


def mysql_indexes(statement: str, parameters: tuple) -> list[str]:
    with databases.connection().cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}", parameters)
        names = [column[0] for column in cursor.description]
        found = [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]
    return [line["key"] for line in found if line["table"] == "mcp_app_request"]


def plan(statement: str, parameters: tuple) -> list[str]:
    connection = databases.connection()
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)"
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {statement}", parameters)
        return [str(line[-1]).strip() for line in cursor.fetchall()]


def test_what_has_ended_is_not_come_by(worker):
    for _ in range(ENDED):
        row = rows.running(worker)
        assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=RESULT)
    rows.queued()
    assert capacity.exceeded_limit(OWNER) is None
    if databases.connection().vendor == "mysql":
        found = mysql_indexes(f"SELECT {capacity.COUNTS_SQL}", capacity.parameters(OWNER))
        assert None not in found
        return
    steps = plan(f"SELECT {capacity.COUNTS_SQL}", capacity.parameters(OWNER))
    if databases.connection().vendor == "sqlite":
        looks = [step for step in steps if "mcp_app_request" in step]
        assert [look.split("COVERING INDEX ")[1].split()[0] for look in looks] == [
            "mcp_request_open",
            "mcp_request_open",
            "mcp_request_status",
        ]
    else:
        looks = [step.split(" on ")[0].removeprefix("-> ").strip() for step in steps if "Scan using" in step]
        assert [look.removeprefix("Index Only Scan using ") for look in looks] == [
            "mcp_request_open",
            "mcp_request_open",
            "mcp_request_status",
        ]
        assert not [step for step in steps if "Bitmap" in step or "Rows Removed" in step]
