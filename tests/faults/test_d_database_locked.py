"""D1 with real processes: another process holds SQLite's lock while calls are cancelled in every possible way."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.situations import LONG, STEP
from tests.support.site import layouts
from tests.support.site.legacy_wire import Client
from tests.support.site.stack import MANAGE, SETTINGS, Stack
from tests.support.site.wire import message, text

pytestmark = pytest.mark.acceptance

LOCKED_SECONDS = 8.0
PATIENCE = 30.0


@pytest.mark.fault("D1")
def test_D1_no_cancellation_is_lost_to_a_lock_and_nobody_else_gets_an_error(tmp_path: Path) -> None:
    # No process can write a heartbeat while the lock is held, which is longer than `LOST_AFTER`.
    steps = tmp_path / "steps"
    environment = {"MCP_TEST_LOST_AFTER": "5"}
    with layouts.closing(Stack(tmp_path, environment, workers=1)) as stack, ThreadPoolExecutor(3) as threads:
        stack.serve_from(stack.start_embedded("--concurrency=4"))
        session = Client.opened(stack)
        left = stack.call("sleep", seconds=LONG, path=str(steps), step=STEP)
        told = session.call("sleep", seconds=LONG, path=str(steps), step=STEP)
        commanded = stack.call("sleep", seconds=LONG, path=str(steps), step=STEP)
        stack.ask("limit", tool="sleep_sync", time_limit=1.0)
        overdue = stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
        calls = {"disconnect": left, "client": told, "admin": commanded, "deadline": overdue}
        for call in calls.values():
            stack.running(call)
        command = (*MANAGE, "mcp", "cancel", stack.row(commanded).id, "--settings", SETTINGS)
        with closing(sqlite3.connect(tmp_path / "mcp.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            left.close()
            notified = threads.submit(
                session.notify, "notifications/cancelled", requestId=told.request_id, reason="enough"
            )
            commander = stack.start(*command)
            assert stack.post(message("server/discover")).result()["supportedVersions"]
            assert stack.post(message("tools/list")).result()["tools"]
            patient = stack.call("echo", text="patient")
            opening = threads.submit(Client.opened, stack)
            time.sleep(LOCKED_SECONDS)
            other.execute("ROLLBACK")
        assert notified.result(PATIENCE) == 202
        assert commander.wait(PATIENCE) == 0, commander.output()
        for cause, call in calls.items():
            row = stack.ended(call, PATIENCE)
            assert (row.status, row.cancel_cause) == ("cancelled", cause)
            assert [attempt.outcome for attempt in row.attempts].count("accepted") == 1
        assert text(patient.result()) == "patient"
        assert opening.result(PATIENCE).delete() == 200
        assert session.delete() == 200
