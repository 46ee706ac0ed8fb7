"""Ctrl-C at a terminal, and the output of commands that run until it is pressed."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from mcp_app.management.requests.request_ids import SHOWN
from tests.management.conftest import Served, eventually, read
from tests.management.terminals import CTRL_C, terminal

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize(
    ("command", "role", "said", "last", "status"),
    [
        ("supervise", "supervisor", "Supervising", "Stopped.", 0),
        ("worker --queues mcp,slow", "worker", "queues mcp, slow", "", 1),
    ],
    ids=["supervise", "worker"],
)
def test_what_goes_on_says_so_and_ends_well(
    data: Path, command: str, role: str, said: str, last: str, status: int
) -> None:
    with terminal(data, *command.split()) as shown:
        shown.wait_shows(said)
        shown.wait_shows("Ctrl-C")
        eventually(lambda: read(data, f"SELECT 1 FROM ?process WHERE role = '{role}'"))
        shown.press(CTRL_C)
        assert shown.wait() == status
    assert last in shown.raw
    assert "Traceback" not in shown.raw


def test_who_waits_for_a_stop_may_leave_and_the_cancellation_stands(data: Path, serve: Callable[..., Served]) -> None:
    served = serve(data)
    served.begin_call("countdown", seconds=600)
    for process in (served.worker, *served.worker.children(recursive=True)):
        process.suspend()  # so that the stop lasts until they are lost
    request_id = str(UUID(read(data, "SELECT id FROM ?request")[0][0]))
    with terminal(data, "cancel", request_id[:SHOWN], "--reason", "enough", "--wait") as shown:
        shown.wait_shows("cancel requested")
        shown.press(CTRL_C)
        assert shown.wait() == 130
    assert "Traceback" not in shown.raw
    assert read(data, "SELECT cancel_cause, cancel_reason FROM ?request") == [("admin", "enough")]


def test_an_examination_may_be_left(data: Path) -> None:
    with terminal(data, "doctor") as shown:
        shown.wait_shows("database ")
        shown.press(CTRL_C)
        assert shown.wait() == 130
    assert "Traceback" not in shown.raw
