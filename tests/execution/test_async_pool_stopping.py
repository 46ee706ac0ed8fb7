"""Each coroutine in a shared loop is stopped alone. One that blocks the loop is unstoppable and harms no other."""

import signal

import pytest

from tests.execution import driver
from tests.execution.coroutines import HOLDING, SPINNING, SWALLOWING, WAITING, begin_crowd, ended
from tests.execution.programs import SHIELDED_COROUTINE, SWALLOWING_COROUTINE
from tests.execution.site import Site, begin_code, eventually, stop
from tests.execution.threads import given_up

pytestmark = pytest.mark.acceptance

BRIEF = 'async def main():\n    open(READY, "w").close()\n    await asyncio.sleep(0.4)'
SHUTDOWN = ("cancelled", "shutdown")


def test_a_coroutine_that_swallows_its_cancellation_is_interrupted(coroutines: Site) -> None:
    row = stop(coroutines, SWALLOWING_COROUTINE, "python_async", hard_grace=20.0)
    assert (row["status"], row["stage"]) == ("cancelled", "interrupt")


def test_a_coroutine_that_computes_is_interrupted_and_its_neighbour_is_not(coroutines: Site) -> None:
    neighbour = begin_code(coroutines, WAITING, "python_async")
    row = stop(coroutines, SPINNING, "python_async", hard_grace=20.0)
    assert (row["status"], row["stage"]) == ("cancelled", "interrupt")
    assert coroutines.ask(driver.row, neighbour)["status"] == "running"
    coroutines.cancel(neighbour)
    assert coroutines.ended(neighbour)["stage"] == "cooperative"


@pytest.mark.parametrize(("policy", "stage"), [("interrupt", "interrupt"), ("kill", "kill")])
def test_a_coroutine_that_swallows_everything_is_not_resumed_after_its_hard_grace(
    coroutines: Site, policy: str, stage: str
) -> None:
    row = stop(coroutines, SWALLOWING, "python_async", cancel_policy=policy, hard_grace=0.6)
    assert (row["status"], row["stage"]) == ("cancelled", stage)


def test_a_shield_puts_the_cancellation_of_a_coroutine_off(coroutines: Site) -> None:
    row = stop(coroutines, SHIELDED_COROUTINE, "python_async")
    assert (row["status"], row["partial_result"]["content"][0]["text"]) == ("cancelled", "whole")


def test_a_coroutine_that_holds_the_loop_is_unstoppable_and_its_neighbours_live_on(site: Site) -> None:
    worker = site.start_worker(concurrency=10, pool="async")
    spared, stopped = (begin_code(site, WAITING, "python_async") for _ in range(2))
    holding = begin_code(site, HOLDING.format(seconds=8), "python_async", hard_grace=0.3)  # twice LOST_AFTER
    for request_id in (holding, stopped):
        site.cancel(request_id)
    given_up(site, holding)
    given_up(site, stopped)
    eventually(lambda: "event loop that" in worker.log.read_text(), "that it is told")
    assert f"blocked by python_async in request {holding}" in worker.log.read_text()
    assert [site.ended(each)["status"] for each in (holding, stopped)] == ["cancelled"] * 2
    assert site.ask(driver.row, spared)["status"] == "running"
    site.cancel(spared)
    assert site.ended(spared)["stage"] == "cooperative"


@pytest.mark.fault("C5")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGQUIT], ids=["TERM", "QUIT"])
def test_C5_a_worker_that_ends_stops_its_coroutines_and_says_so(site: Site, how: signal.Signals) -> None:
    worker = site.start_worker(concurrency=40, pool="async", MCP_TEST_DRAIN="4")
    crowd = begin_crowd(site, 20)
    brief = begin_code(site, BRIEF, "python_async")
    swallowing = begin_code(site, SWALLOWING, "python_async", cancel_policy="kill", hard_grace=0.3)
    worker.process.send_signal(how)
    worker.process.wait(60)
    assert ended(site, crowd) == {SHUTDOWN: 20}
    row = site.ended(swallowing)
    assert (row["status"], row["cancel_cause"]) == SHUTDOWN
    if how == signal.SIGTERM:  # warm shutdown: running calls get their time
        assert site.ended(brief)["status"] == "completed"
    assert not site.processes()
    assert site.ask(driver.workers) == []


@pytest.mark.fault("C5")
def test_C5_a_worker_that_ends_ends_what_holds_its_loop(site: Site) -> None:
    worker = site.start_worker(concurrency=4, pool="async")
    waiting = begin_code(site, WAITING, "python_async")
    holding = begin_code(site, HOLDING.format(seconds=90), "python_async", cancel_policy="kill", hard_grace=0.3)
    worker.process.send_signal(signal.SIGTERM)
    worker.process.wait(60)
    for request_id in (waiting, holding):
        row = site.ask(driver.row, request_id)
        assert (row["status"], row["cancel_cause"], row["stage"]) == (*SHUTDOWN, "kill")
    assert not site.processes()


@pytest.mark.fault("C2")
def test_C2_a_killed_worker_loses_its_coroutines(site: Site) -> None:
    doomed = site.start_worker(concurrency=30, pool="async")
    crowd = begin_crowd(site, 20)
    doomed.stop(signal.SIGKILL)
    site.start_worker(concurrency=1)
    assert ended(site, crowd) == {("lost", ""): 20}
