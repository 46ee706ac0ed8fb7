"""Control commands are only hints. A forged command has no effect unless the rows agree with it."""

from pathlib import Path
from typing import Any

import pytest

from tests.execution import driver
from tests.execution.site import Site, eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.fault("I13")]

GARBAGE: list[Any] = [None, 5, "", [], ["x", 5, None, {}, "\x00"], {"a": 1}]


def test_I13_forged_commands_change_nothing(one_slot: Site, tmp_path: Path) -> None:
    site, gate = one_slot, tmp_path / "gate"
    code = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)"
    running = site.begin("python", {"code": code})
    queued = [site.submit("python", {"code": "answer = 'ran'"}) for _ in range(3)]
    for command in ("mcp_cancel", "mcp_revoke", "mcp_overdue", "mcp_shutdown"):
        for given in (*GARBAGE, [running, *queued], [f"{running}/0"]):
            site.ask(driver.broadcast, command, given)
    # Earlier commands have been handled once the worker drops the message of a call that was cancelled later.
    cancelled = site.submit("python", {"code": "answer = 'ran'"})
    assert site.cancel(cancelled) == "accepted"
    eventually(lambda: site.ask(driver.is_revoked, cancelled), "the worker hears of a genuine cancellation")
    assert {site.ask(driver.row, request_id)["status"] for request_id in queued} == {"queued"}
    assert site.ask(driver.row, running)["status"] == "running"
    gate.touch()
    assert [site.ended(request_id)["status"] for request_id in (running, *queued)] == ["completed"] * 4
    assert [site.ask(driver.attempts, request_id) for request_id in (running, *queued)] == [[]] * 4
