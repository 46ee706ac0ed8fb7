"""The effect on calls, slots and processes when parts of a worker are busy, killed or stopped."""

import os
import signal
import sys
from pathlib import Path

import pytest

from mcp_app.execution.stopping import processes
from tests.execution import driver
from tests.execution.site import Site, begin_code, eventually, stop
from tests.execution.stress import slots, strain
from tests.support.sqlite_locks import go_on

DEAF = """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    open(READY, "w").close()
    time.sleep(60)
"""
HOLDS = {
    "innocent but not completed": [],
    "failed": [],
    "not exactly one end": [],
    "left killing": [],
    "ran twice": [],
    "completed but never ran": [],
    "audit not settled": 0,
    "audit missing": [],
}

pytestmark = pytest.mark.acceptance


def test_short_calls_cancelled_at_random_harm_nobody_and_no_slot(site: Site) -> None:
    site.start_worker()
    report = site.ask(strain, str(site.data), 150, 7)
    assert {name: report[name] for name in HOLDS} == HOLDS
    slots(site, site.data / "guests", 2)


def test_kills_make_room_for_the_calls_that_wait_behind_busy_slots(site: Site, tmp_path: Path) -> None:
    site.start_worker()
    stubborn = {"seconds": 60, "path": str(tmp_path / "steps")}
    busy = [site.begin("stubborn", stubborn, cancel_policy="kill", hard_grace=0.3) for _ in range(2)]
    waiting = [site.submit("pid") for _ in range(2)]
    for request_id in busy:
        site.cancel(request_id)
    assert [(site.ended(each)["status"], site.ended(each)["stage"]) for each in busy] == [("cancelled", "kill")] * 2
    assert [site.ended(each)["status"] for each in waiting] == ["completed"] * 2


def test_one_call_to_a_process_works_with_every_stage(site: Site) -> None:
    site.start_worker(MCP_TEST_MAX_TASKS="1")
    assert site.text("pid") != site.text("pid")
    assert stop(site, 'open(READY, "w").close()\ntime.sleep(60)')["stage"] == "interrupt"
    assert stop(site, DEAF, cancel_policy="kill", hard_grace=0.1)["stage"] == "kill"
    slots(site, site.data / "guests", 2)


@pytest.mark.fault("C1")
def test_a_child_killed_from_outside_loses_its_call_and_what_that_started(site: Site) -> None:
    site.start_worker(concurrency=1)
    code = 'subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)\ntime.sleep(60)'
    request_id = site.begin("python", {"code": code})
    eventually(lambda: processes.find(request_id), "the tool's subprocess")
    os.kill(site.ask(driver.row, request_id)["worker_pid"], signal.SIGKILL)
    assert site.ended(request_id)["status"] == "lost"
    eventually(lambda: not processes.find(request_id), "the end of the tool's subprocess")
    assert site.call("pid")["status"] == "completed"


def test_a_cancelled_call_whose_child_is_killed_from_outside_is_cancelled(site: Site) -> None:
    site.start_worker(concurrency=1)
    request_id = site.begin("doze", {"seconds": 60}, cancel_policy="cooperative")
    site.cancel(request_id)
    os.kill(site.ask(driver.row, request_id)["worker_pid"], signal.SIGKILL)
    assert site.ended(request_id)["status"] == "cancelled"
    [attempt] = site.ask(driver.attempts, request_id)
    assert attempt["settled_at"]


@pytest.mark.skipif(sys.platform != "linux", reason="the marker is read from /proc")
def test_another_worker_ends_what_a_killed_one_left(site: Site) -> None:
    doomed = site.start_worker(concurrency=1)
    code = 'subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)\ntime.sleep(60)'
    request_id = site.begin("python", {"code": code})
    eventually(lambda: processes.find(request_id), "the tool's subprocess")
    children = doomed.children()
    doomed.stop(signal.SIGKILL)
    site.start_worker(concurrency=1)
    assert site.ended(request_id, 25)["status"] == "lost"
    eventually(lambda: not processes.find(request_id), "the end of the tool's subprocess")
    assert not [pid for pid in children if processes.is_alive(pid)]


@pytest.mark.fault("C2")
def test_a_killed_worker_leaves_no_temporary_file(site: Site, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    doomed = site.start_worker(TMPDIR=str(temporary))
    children = doomed.children()
    doomed.stop(signal.SIGKILL)
    eventually(lambda: not any(map(processes.is_alive, children)), "the end of its children")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("policy", ["interrupt", "kill"])
def test_a_call_is_stopped_while_its_worker_shuts_down(site: Site, policy: str) -> None:
    worker = site.start_worker(concurrency=1)
    code = DEAF.replace("signal.SIG_BLOCK", "signal.SIG_UNBLOCK") if policy == "interrupt" else DEAF
    request_id = begin_code(site, code, cancel_policy=policy, hard_grace=0.3)
    worker.process.terminate()
    eventually(lambda: "Warm shutdown" in worker.log.read_text(), "the shutdown")
    site.cancel(request_id)
    ended = site.ended(request_id)
    assert (ended["status"], ended["stage"]) == ("cancelled", policy)
    assert worker.process.wait(20) == 0
    assert not site.processes()


@pytest.mark.fault("B12")
def test_a_late_result_of_a_worker_that_was_given_up_is_refused(site: Site) -> None:
    frozen = site.start_worker(concurrency=1)
    runs = site.data / "runs"
    request_id = site.submit("brief", {"path": str(runs), "name": "once", "seconds": 60})
    eventually(runs.exists, "the tool's start")
    child = site.ask(driver.row, request_id)["worker_pid"]
    site.stand_still(frozen.pid, child)
    site.start_worker(concurrency=1)
    assert site.ended(request_id, 25)["status"] == "lost"
    go_on(child, frozen.pid)
    # No client waits for the call any more. So it is stopped, and its process is free for others.
    eventually(lambda: "was discarded" in frozen.log.read_text(), "the end of the given up call")
    assert site.ask(driver.row, request_id)["status"] == "lost"
    assert runs.read_text() == "once\n"


def test_what_a_worker_has_loaded_is_set_aside_from_garbage_collection_where_tools_run(embedded_slot):
    aside = embedded_slot.text("python", {"code": "import gc; answer = gc.get_freeze_count()"})
    assert int(aside) > 50_000  # less than Django and this app use on their own
