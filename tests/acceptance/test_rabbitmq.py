"""Differences of RabbitMQ from Redis: it redelivers a dead worker's messages, and queues may outlive processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.outages import PATIENT, Site
from tests.acceptance.situations import LONG, STEP
from tests.acceptance.test_disconnect import fill_slots
from tests.support.site.own_engines import queues
from tests.support.site.stack import Stack
from tests.support.site.wire import Connection, text
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(PATIENT),
    pytest.mark.parametrize("running_site", ["rabbitmq"], indirect=True),
]

ABANDONED = 20
TAKEN_OVER_IN = 40.0


def waiting(stack: Stack, folder: Path, count: int) -> list[Connection]:
    """Make calls for which no slot is free."""
    calls = [stack.call("count", path=str(folder / f"count{number}")) for number in range(count)]
    for call in calls:
        assert stack.row(call).status == "queued"
    return calls


def assert_done_once(stack: Stack, calls: list[Connection], folder: Path) -> None:
    for number, call in enumerate(calls):
        assert stack.ended(call, TAKEN_OVER_IN).status == "completed"
        assert text(call.result()) == "counted"
        assert stack.row(call).story == ["queued", "running", "completed"]
        assert len((folder / f"count{number}").read_text().splitlines()) == 1


@pytest.mark.fault("C5", "H3")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_what_a_worker_had_been_sent_and_not_begun_is_done_once_by_others(
    site: Site, number: signal.Signals, tmp_path: Path
) -> None:
    stack = site.stack
    blockers = [
        stack.call("sleep_sync", seconds=2.0, path=str(tmp_path / f"steps{i}"), step=STEP) for i in range(stack.slots)
    ]
    for call in blockers:
        stack.running(call)
    calls = waiting(stack, tmp_path, 4)
    ending = stack.worker_programs[0]
    ending.signal(number)
    ending.wait()
    stack.restore_workers()
    assert_done_once(stack, calls, tmp_path)
    # A worker that is stopped waits for running calls, but here for less time than they need.
    ends = {"completed", "cancelled" if number == signal.SIGTERM else "lost"}
    assert {stack.ended(call, TAKEN_OVER_IN).status for call in blockers} <= ends


@pytest.mark.fault("B11")
def test_no_queue_grows_and_those_of_processes_go_with_them(site: Site, tmp_path: Path) -> None:
    stack = site.stack
    site.await_workers()
    fill_slots(stack)
    calls = waiting(stack, tmp_path, ABANDONED)
    for call in calls:
        call.close()
    for call in calls:
        assert stack.ended(call).status == "cancelled"
    stack.settle()

    def own() -> dict[str, int]:
        found = queues(site.broker)
        assert "mcp" in found
        return {name: waiting for name, waiting in found.items() if "pidbox" in name}

    eventually(lambda: set(queues(site.broker).values()) == {0}, lambda: f"no message is left: {queues(site.broker)}")
    assert not list(tmp_path.glob("count*"))
    assert len(own()) == len(stack.worker_programs)
    boot_id, pid = next(iter(stack.workers().items()))
    call = stack.call("sleep_sync", seconds=LONG, path="/dev/null")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(own()) < len(stack.worker_programs), lambda: f"the queue of {boot_id} goes: {own()}", 30.0)
    call.close()
