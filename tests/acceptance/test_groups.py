"""Requests that are cancelled together: a parent with its children, and all requests of a tool."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.situations import LONG, STEP
from tests.acceptance.test_disconnect import assert_runs_once
from tests.acceptance.test_endings import LOST_IN, accepted, assert_told_lost, error_text
from tests.support.site.inspector import ROOT, Row
from tests.support.site.programs import STARTING
from tests.support.site.stack import MANAGE, SETTINGS, Stack
from tests.support.site.wire import Connection, call, text
from tests.support.waiting import eventually

DIES_IN_BETWEEN = """
import os, sys, django
django.setup()
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.states import Cause
cancellation.cancel_children = lambda parents: os._exit(9)
cancellation.cancel(sys.argv[1], cause=Cause.ADMIN, actor=Actor("root"), reason="in between")
"""


def begin(stack: Stack, folder: Path, tool: str = "family", children: int = 3) -> tuple[Connection, Row]:
    """Call a tool that starts children. Return its connection and row when all are started and one takes steps."""
    folder.mkdir()
    parent = stack.call(tool, children=children, folder=str(folder), step=STEP)
    row = stack.running(parent)
    eventually(lambda: stack.ask("count children", parent=row.id)[0] == children, "all are started", STARTING)
    eventually(lambda: any(folder.iterdir()), "one of them steps")
    return parent, row


def ended_children(stack: Stack, row: Row, within: float = 10.0) -> list[dict[str, Any]]:
    def count() -> list[int]:
        counted: list[int] = stack.ask("count children", parent=row.id)
        return counted

    eventually(lambda: count()[1] == 0, lambda: f"all children end: {count()} (all, open)", within)
    found: list[dict[str, Any]] = stack.ask("children", parent=row.id)
    return found


def assert_frozen(folder: Path) -> None:
    """Assert that no child takes a step any more."""
    before = {path: path.read_text() for path in folder.iterdir()}
    time.sleep(4 * STEP)
    assert {path: path.read_text() for path in folder.iterdir()} == before


def assert_gone_with_parent(children: list[dict[str, Any]], folder: Path) -> None:
    for child in children:
        assert (child["status"], child["cause"], child["outcomes"]) == ("cancelled", "parent", ["accepted"])
        assert child["ran"] or not Path(child["path"]).exists()
    assert_frozen(folder)


@pytest.mark.fault("A4", "A5", "A6", "A7")
@pytest.mark.parametrize(
    ("tool", "children"),
    [
        ("family", 3),
        ("family_async", 3),
        ("stubborn_family", 3),
        ("family", 20),
        pytest.param("family", 100, marks=pytest.mark.nightly),
    ],
)
def test_a_parents_disconnect_stops_every_child(stack: Stack, tmp_path: Path, tool: str, children: int) -> None:
    folder = tmp_path / "children"
    parent, row = begin(stack, folder, tool, children)
    parent.close()
    found = ended_children(stack, row)
    assert len(found) == children
    row = stack.ended(parent)
    assert (row.status, row.cancel_cause) == ("cancelled", "disconnect")
    assert_gone_with_parent(found, folder)
    assert_runs_once(stack, tmp_path / "count")


def test_a_parent_waits_for_its_children_and_their_progress_is_not_its_own(stack: Stack) -> None:
    body = call("relay", steps=3)
    body["params"]["_meta"]["progressToken"] = "mine"
    relayed = stack.post(body)
    assert text(relayed.result()) == "3 steps"
    row = stack.ended(relayed)
    assert row.story == ["queued", "running", "completed"]


@pytest.mark.fault("C2")
def test_with_a_killed_worker_nothing_of_a_family_is_left(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "children"
    parent, row = begin(stack, folder, children=5)
    os.kill(stack.workers()[str(row.worker)], signal.SIGKILL)
    assert_told_lost(error_text(parent))
    found = ended_children(stack, row, LOST_IN)
    for child in found:
        assert child["status"] in ("cancelled", "lost")
        assert child["cause"] == ("parent" if child["status"] == "cancelled" else child["cause"])
        assert child["ran"] or child["status"] == "cancelled"
    assert_frozen(folder)
    stack.restore_workers()
    assert_runs_once(stack, tmp_path / "count")


@pytest.mark.fault("C14")
def test_a_cancellation_whose_process_dies_before_the_children_is_finished(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "children"
    parent, row = begin(stack, folder)
    command = [sys.executable, "-c", DIES_IN_BETWEEN, row.id]
    died = subprocess.run(command, cwd=ROOT, env=stack.environment, timeout=60)
    assert died.returncode == 9
    told = error_text(parent)
    assert all(fact in told for fact in ("cancelled", "administrator", "in between"))
    assert_gone_with_parent(ended_children(stack, row), folder)


def test_all_calls_of_a_tool_are_cancelled_by_one_command(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    calls = [
        stack.call("sleep_sync", seconds=LONG, path=str(folder / str(number)), step=STEP)
        for number in range(stack.slots + 3)
    ]
    other = stack.call("progress", steps=5, delay=0.01)
    eventually(lambda: len(list(folder.iterdir())) == stack.slots, "every slot steps")
    command = [*MANAGE, "mcp", "cancel", "--tool", "sleep_sync", "--reason", "an incident", "--wait"]
    done = subprocess.run(
        [*command, "--settings", SETTINGS], cwd=ROOT, env=stack.environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"tool sleep_sync: {len(calls)} cancel requested", "tool sleep_sync: stopped"]
    assert_frozen(folder)
    assert len(list(folder.iterdir())) == stack.slots
    for each in calls:
        told = error_text(each)
        assert all(fact in told for fact in ("cancelled", "administrator", "an incident"))
        attempt = accepted(stack.row(each))
        assert (attempt.reason, attempt.part_of) == ("an incident", "tool sleep_sync")
    assert text(other.result()) == "5 steps"
