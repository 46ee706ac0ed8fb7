"""Calls that came in one message: each is a task of its own, and none is held up, lost or run twice by another."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_app.execution import batches, child, tasks
from mcp_app.states import Status
from tests.execution import driver
from tests.execution.site import Site, eventually
from tests.execution.thread_worker import ThreadWorker
from tests.lifecycle import rows

pytestmark = pytest.mark.acceptance

PID = ("pid", {})
DIES = "os.kill(os.getpid(), signal.SIGKILL)"


def python(code: str) -> tuple[str, dict[str, str]]:
    return "python", {"code": code}


def waits_for(path: Path) -> tuple[str, dict[str, str]]:
    """A call that runs until a file is there, and makes another as it begins; a tool's process has no other word of a
    test than a file that it looks for."""
    return python(
        f"open({str(path) + '-begun'!r}, 'w').close()\nwhile not os.path.exists({str(path)!r}): time.sleep(0.005)"
    )


def begun(path: Path) -> bool:
    return Path(f"{path}-begun").exists()


def ends(site: Site, request_ids: list[str]) -> list[str]:
    return [site.ended(each)["status"] for each in request_ids]


def texts(site: Site, request_ids: list[str]) -> list[str]:
    return [site.ended(each)["result"]["content"][0]["text"] for each in request_ids]


def celery_statuses(site: Site, request_ids: list[str]) -> list[str | None]:
    return [site.ask(driver.celery_status, each) for each in request_ids]


def times_run(site: Site, request_id: str) -> int:
    told = [data["status"] for kind, data in site.ask(driver.events, request_id) if kind == "transition"]
    return told.count("running")


def test_each_call_of_a_message_ends_as_if_it_had_come_alone(one_slot: Site) -> None:
    raises = python("raise ValueError('in the middle')")
    alone = [one_slot.submit(*each) for each in (PID, raises)]
    together = one_slot.ask(driver.submit_batch, [PID, raises, ("refuses", {}), PID])
    assert ends(one_slot, together) == ["completed", "failed", "failed", "completed"]
    first, *_, last = together
    assert texts(one_slot, [first]) == texts(one_slot, [last]), "the same process ran them"
    eventually(lambda: celery_statuses(one_slot, together) == ["SUCCESS", "FAILURE", "SUCCESS", "SUCCESS"])
    of_both = [[one_slot.ask(driver.celery_result, each) for each in calls] for calls in (alone, together[:2])]
    assert of_both[0] == of_both[1]
    assert one_slot.ask(driver.batch_results) == 0


@pytest.mark.fault("A4")
def test_a_call_that_is_cancelled_while_another_of_its_message_runs_does_not_run(site: Site, tmp_path: Path) -> None:
    site.start_worker(concurrency=1)
    go, ran = tmp_path / "go", tmp_path / "ran"
    first, cancelled, last = site.ask(
        driver.submit_batch, [waits_for(go), ("brief", {"path": str(ran), "name": "x", "seconds": 0.0}), PID]
    )
    eventually(lambda: begun(go))
    assert site.cancel(cancelled) == "accepted"
    go.touch()
    assert ends(site, [first, cancelled, last]) == ["completed", "cancelled", "completed"]
    assert not ran.exists()


def test_none_waits_for_long_behind_another(site: Site, tmp_path: Path) -> None:
    site.start_worker(concurrency=2)
    go = tmp_path / "go"
    first, *others = site.ask(driver.submit_batch, [waits_for(go), PID, PID, PID])
    eventually(lambda: begun(go))
    assert ends(site, others) == ["completed"] * 3
    assert site.ask(driver.row, first)["status"] == "running"
    go.touch()
    assert ends(site, [first]) == ["completed"]
    assert [times_run(site, each) for each in (first, *others)] == [1] * 4


def test_celery_hears_of_those_that_ended_though_another_of_their_message_runs_on(site: Site, tmp_path: Path) -> None:
    site.start_worker(concurrency=1)
    go = tmp_path / "go"
    ended, runs_on = site.ask(driver.submit_batch, [PID, waits_for(go)])
    eventually(lambda: begun(go))
    eventually(lambda: celery_statuses(site, [ended, runs_on]) == ["SUCCESS", None])
    go.touch()
    eventually(lambda: celery_statuses(site, [ended, runs_on]) == ["SUCCESS"] * 2)


@pytest.mark.fault("C1")
def test_the_death_of_their_process_loses_the_one_that_ran(site: Site) -> None:
    site.start_worker(concurrency=1)
    before, dies, *after = site.ask(driver.submit_batch, [PID, python(DIES), PID, PID])
    assert ends(site, [before, dies, *after]) == ["completed", "lost", "completed", "completed"]
    eventually(
        lambda: celery_statuses(site, [before, dies, *after]) == ["SUCCESS", "FAILURE", "SUCCESS", "SUCCESS"],
        "that Celery is told of those, too, that ended in the process before it died",
    )


@pytest.mark.fault("A7")
def test_a_kill_hits_the_one_that_is_to_stop(site: Site, tmp_path: Path) -> None:
    site.start_worker(concurrency=1)
    steps = tmp_path / "steps"
    stubborn = ("stubborn", {"seconds": 60, "path": str(steps)})
    before, killed, *after = site.ask(
        driver.submit_batch, [PID, stubborn, PID, PID], cancel_policy="kill", hard_grace=0.3
    )
    eventually(steps.exists)
    site.cancel(killed)
    assert ends(site, [before, killed, *after]) == ["completed", "cancelled", "completed", "completed"]
    assert site.ended(killed)["stage"] == "kill"
    eventually(lambda: site.ask(driver.celery_status, killed) == "REVOKED")


@pytest.mark.fault("A7")
def test_a_kill_spares_the_process_whose_batch_the_call_was_in_once(site: Site, tmp_path: Path) -> None:
    site.start_worker(concurrency=4)
    go, steps = tmp_path / "go", [tmp_path / f"steps{number}" for number in range(3)]
    stubborn = [("stubborn", {"seconds": 60, "path": str(each)}) for each in steps]
    first, *killed = site.ask(driver.submit_batch, [waits_for(go), *stubborn], cancel_policy="kill", hard_grace=0.3)
    eventually(lambda: begun(go) and all(each.exists() for each in steps), "that others run them")
    site.ask(driver.cancel_many, killed)
    assert ends(site, killed) == ["cancelled"] * 3
    go.touch()
    assert ends(site, [first]) == ["completed"]


@pytest.mark.fault("C5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT], ids=lambda number: number.name)
def test_a_process_that_is_told_to_end_gives_the_others_back(
    site: Site, tmp_path: Path, number: signal.Signals
) -> None:
    worker = site.start_worker(concurrency=1)
    [process] = worker.children()
    go = tmp_path / "go"
    first, *others = site.ask(driver.submit_batch, [waits_for(go), PID, PID])
    eventually(lambda: begun(go))
    os.kill(process, number)
    go.touch()
    assert ends(site, [first, *others]) == ["completed"] * 3
    assert str(process) not in texts(site, others)


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_what_a_process_that_is_to_end_was_given_is_published_again(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = [rows.queued(queue="mcp") for _ in range(3)]
    with ThreadWorker.at_work(monkeypatch) as worker:
        monkeypatch.setattr(child._of_threads[os.getpid()].termination, "told_at", 1.0)
        worker._ending.set()
        worker._thread.join()
        with ThreadPoolExecutor(1) as thread, pytest.raises(SystemExit):
            thread.submit(batches.run_all, tasks.run_batch, [str(row.pk) for row in submitted]).result()
        published = {worker._queue.get(timeout=5).headers["id"] for _ in (*submitted, "the first says so itself")}
    assert published == {str(row.pk) for row in submitted}
    assert [rows.fresh(row).status for row in submitted] == [Status.QUEUED] * 3


@pytest.mark.parametrize("kind", ["threads", "coroutines"])
def test_in_threads_they_run_beside_one_another(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    site: Site = request.getfixturevalue(f"embedded_{kind}")
    guests = [("meet", {"folder": str(tmp_path), "name": str(number), "guests": 3}) for number in range(3)]
    together = site.ask(driver.submit_batch, [*guests, python("raise ValueError('alone')")])
    assert ends(site, together) == ["completed"] * 3 + ["failed"]
    assert [eventually(lambda each=each: site.ask(driver.celery_status, each)) for each in together] == [
        *["SUCCESS"] * 3,
        "FAILURE",
    ]
    assert site.ask(driver.batch_results) == 0


def test_a_call_of_a_message_stops_in_threads_as_any_does(embedded_threads: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    cancelled, other = embedded_threads.ask(driver.submit_batch, [waits_for(go), PID])
    eventually(lambda: begun(go))
    embedded_threads.cancel(cancelled)
    assert ends(embedded_threads, [cancelled, other]) == ["cancelled", "completed"]
