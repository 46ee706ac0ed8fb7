"""Calls whose process died, whose worker died, or whose message was delivered twice."""

import signal
from pathlib import Path
from typing import Any

import pytest

from mcp_app.execution.stopping.processes import is_alive
from tests.execution import driver
from tests.execution.site import Site, eventually
from tests.support.sqlite_locks import go_on

pytestmark = pytest.mark.acceptance

OUT_OF_CPU = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass"
"""SIGKILL, with which the kernel kills a process past its hard limit or when memory runs out."""
OUT_OF_MEMORY = """
import resource
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (2**30, before[1]))
try: bytearray(2**33)
finally: resource.setrlimit(resource.RLIMIT_AS, before)
"""


def count(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.fault("C1")
def test_C1_a_child_that_the_kernel_kills_loses_its_call_and_one_that_gets_no_memory_fails_its(site: Site) -> None:
    site.start_worker(concurrency=1)
    runs = site.data / "runs"
    lost = site.call("python", {"code": f"open({str(runs)!r}, 'a').write('run\\n')\n{OUT_OF_CPU}"})
    assert (lost["status"], lost["error"]["cause"], count(runs)) == ("lost", "lost", 1)
    eventually(lambda: site.ask(driver.celery_status, str(lost["id"])) == "FAILURE", "Celery's own result")
    failed = site.call("python", {"code": OUT_OF_MEMORY})
    assert (failed["status"], failed["error"]["type"]) == ("failed", "MemoryError")
    assert site.call("pid")["status"] == "completed"
    assert count(runs) == 1


@pytest.mark.fault("C2", "C4")
def test_C4_a_worker_that_comes_back_under_its_name_ends_what_it_left(site: Site) -> None:
    doomed = site.start_celery_worker("same@%h")
    runs = site.data / "runs"
    call = site.submit("brief", {"path": str(runs), "name": "once", "seconds": 60})
    eventually(runs.exists, "the tool's start")
    assert site.ask(driver.celery_status, call) is None
    doomed.stop(signal.SIGKILL)
    successor = site.start_celery_worker("same@%h")
    assert successor.pid != doomed.pid
    assert site.ended(call, 30)["status"] == "lost"
    assert site.call("pid")["status"] == "completed"
    eventually(lambda: site.ask(driver.celery_status, call) == "FAILURE", "Celery's own result")
    assert count(runs) == 1


@pytest.mark.fault("C10")
def test_C10_a_message_that_is_delivered_twice_runs_once(site: Site) -> None:
    site.start_worker(concurrency=3)
    runs = site.data / "runs"
    twice = site.submit("brief", {"path": str(runs), "name": "once", "seconds": 1.0})
    site.ask(driver.publish_again, twice)
    eventually(runs.exists, "the tool's start")
    site.ask(driver.publish_again, twice)
    assert site.ended(twice)["status"] == "completed"
    site.ask(driver.publish_again, twice)
    assert [site.call("pid")["status"] for _ in range(6)] == ["completed"] * 6
    assert count(runs) == 1
    told = [data.get("status") for _, data in site.ask(driver.events, twice)]
    assert told == ["queued", "running", "completed"]
    assert site.task_ends(twice).count("SUCCESS") == 1
    assert site.ask(driver.celery_status, twice) is None, "Celery keeps no result of a run that ended well"


def begin_and_wait(site: Site, **changes: Any) -> tuple[str, Path]:
    """Begin a call whose tool succeeds once the file exists, even if the call is cancelled before."""
    go, ready = site.data / "go", site.data / "ready"
    code = f"open({str(ready)!r}, 'w')\nwith ctx.shield():\n  while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    call = site.submit("python", {"code": code}, **changes)
    eventually(ready.exists, "the tool's start")
    return call, go


def notes(site: Site, call: str) -> list[str]:
    return [data["message"] for kind, data in site.ask(driver.events, call) if kind == "note"]


@pytest.mark.fault("B12")
@pytest.mark.parametrize("cancelled", [False, True], ids=["lost", "cancelled and lost"])
def test_B12_a_success_that_comes_after_the_end_is_refused_and_noted(site: Site, cancelled: bool) -> None:
    """The worker freezes in the middle of its call, is declared lost, and resumes with a result.

    A call with a requested cancellation is lost as well, because nothing proves that it stopped.
    """
    frozen = site.start_worker(concurrency=1)
    call, go = begin_and_wait(site, cancel_policy="cooperative")
    if cancelled:
        assert site.cancel(call) == "accepted"
    child = site.ask(driver.row, call)["worker_pid"]
    site.stand_still(frozen.pid, child)
    site.start_worker(concurrency=1)
    assert site.ended(call, 30)["status"] == "lost"
    go.touch()
    go_on(child, frozen.pid)
    eventually(lambda: notes(site, call), "the note")
    [note] = notes(site, call)
    assert all(fact in note for fact in ("result", "discarded", "completed"))
    row = site.ask(driver.row, call)
    assert (row["status"], row["result"], row["killing"]) == ("lost", None, False)
    assert site.ask(driver.celery_status, call) == "FAILURE"
    assert "SUCCESS" not in site.task_ends(call)
    attempts = site.ask(driver.attempts, call)
    assert [(each["outcome"], each["status_after"]) for each in attempts] == [("accepted", "lost")] * cancelled


@pytest.mark.fault("B12")
def test_B12_no_success_can_come_after_the_end_as_cancelled(site: Site) -> None:
    """A process freezes before it stores a success. It must be dead before its call becomes cancelled."""
    worker = site.start_worker(concurrency=1)
    call, go = begin_and_wait(site, cancel_policy="kill", hard_grace=1.0)
    child = site.ask(driver.row, call)["worker_pid"]
    site.stand_still(child)
    go.touch()
    assert site.cancel(call) == "accepted"
    ended = site.ended(call)
    assert not is_alive(child)
    assert (ended["status"], ended["stage"], ended["result"]) == ("cancelled", "kill", None)
    assert site.call("pid")["status"] == "completed"
    assert worker.process.poll() is None
    eventually(lambda: site.ask(driver.celery_status, call) == "REVOKED", "Celery's own result")
    assert notes(site, call) == []
    assert site.ask(driver.row, call)["status"] == "cancelled"
