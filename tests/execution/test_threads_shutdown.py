"""A worker whose tools run in threads shuts down like any other. Unstoppable calls end with its process."""

import signal

import pytest

from tests.execution import driver
from tests.execution.site import Site, begin_code, eventually
from tests.execution.threads import ASLEEP, SLOTS, SPINNING, given_up

pytestmark = [pytest.mark.acceptance, pytest.mark.fault("C5")]

SHORT = 'open(READY, "w").close()\ntime.sleep(0.4)'
SPARED = 'open(READY, "w").close()\nwhile not ctx.is_cancelled:\n    time.sleep(0.01)'
"""Ends once it is cancelled, and returns as if it had not been."""
SHUTDOWN = ("cancelled", "shutdown")


def end(site: Site, request_id: str) -> tuple[str, str]:
    row = site.ended(request_id)
    return row["status"], row["cancel_cause"]


def test_C5_a_warm_shutdown_gives_calls_in_threads_their_time_and_then_stops_them(site: Site) -> None:
    worker = site.start_worker(concurrency=SLOTS, pool="threads")
    short, spinning = begin_code(site, SHORT), begin_code(site, SPINNING, hard_grace=20.0)
    spared = begin_code(site, SPARED, cancel_policy="cooperative")
    asleep = begin_code(site, ASLEEP.format(seconds=60), cancel_policy="interrupt", hard_grace=0.2)
    worker.process.terminate()
    assert worker.process.wait(60) == 0
    assert end(site, short) == ("completed", "")
    assert [end(site, each) for each in (spinning, asleep)] == [SHUTDOWN] * 2
    assert [ended_as(site, each)[1] for each in (spinning, asleep)] == ["interrupt", "kill"]
    assert end(site, spared) == ("completed", "shutdown")
    assert not site.processes()
    assert site.ask(driver.workers) == []


def test_C5_a_cold_shutdown_of_threads_stops_calls_whatever_their_policy_and_what_they_started(site: Site) -> None:
    worker = site.start_worker(concurrency=SLOTS, pool="threads")
    waits = 'child = subprocess.Popen(["sleep", "60"])\nopen(READY, "w").close()\ntime.sleep(60)'
    calls = [begin_code(site, waits, cancel_policy=policy, hard_grace=0.5) for policy in ("cooperative", "kill")]
    worker.process.send_signal(signal.SIGQUIT)
    worker.process.wait(60)
    assert "Unrecoverable" not in worker.log.read_text()
    assert [end(site, each) for each in calls] == [SHUTDOWN] * 2
    assert not site.processes()
    assert site.ask(driver.workers) == []


def test_C5_a_soft_shutdown_lets_calls_in_threads_end(site: Site) -> None:
    worker = site.start_worker(concurrency=SLOTS, pool="threads", MCP_TEST_SOFT_SHUTDOWN="3")
    short, spinning, cancelled = begin_code(site, SHORT), begin_code(site, SPINNING), begin_code(site, SPINNING)
    worker.process.send_signal(signal.SIGQUIT)
    eventually(lambda: "Initiating Soft Shutdown" in worker.log.read_text(), "the soft shutdown")
    site.cancel(cancelled)
    assert end(site, cancelled) == ("cancelled", "client")
    assert end(site, short) == ("completed", "")
    assert site.ask(driver.row, spinning)["cancel_requested_at"] is None
    assert end(site, spinning) == SHUTDOWN
    worker.process.wait(60)
    assert not site.processes()


def test_C5_a_cold_shutdown_that_cuts_the_handing_over_of_a_call_ends_the_worker(site: Site) -> None:
    worker = site.start_worker(concurrency=SLOTS, pool="threads", MCP_TEST_HELD_START="1")
    spinning = begin_code(site, SPINNING)
    worker.process.send_signal(signal.SIGQUIT)
    worker.process.wait(60)
    assert end(site, spinning) == SHUTDOWN
    assert not site.processes()
    assert site.ask(driver.workers) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGQUIT], ids=["TERM", "QUIT"])
def test_C5_a_worker_that_ends_ends_its_unstoppable_threads_and_says_so(site: Site, how: signal.Signals) -> None:
    worker = site.start_worker(concurrency=SLOTS, pool="threads", MCP_TEST_DRAIN="30")
    steps = site.data / "steps"
    stubborn = {"seconds": 60, "path": str(steps)}
    unstoppable = site.begin("stubborn", stubborn, cancel_policy="kill", hard_grace=0.2)
    site.cancel(unstoppable)
    given_up(site, unstoppable)
    others = [
        begin_code(site, SPINNING, hard_grace=20.0),
        begin_code(site, ASLEEP.format(seconds=60), cancel_policy="kill", hard_grace=0.2),
    ]
    worker.process.send_signal(how)
    if how == signal.SIGTERM:  # warm shutdown: running calls may finish, and cancelled ones stop
        eventually(lambda: "Warm shutdown" in worker.log.read_text(), "the shutdown")
        for request_id in others:
            site.cancel(request_id)
    worker.process.wait(60)
    written = steps.read_text()
    assert [ended_as(site, each) for each in (unstoppable, *others)] == [
        ("cancelled", "kill"),
        ("cancelled", "interrupt"),
        ("cancelled", "kill"),
    ]
    causes = {site.ask(driver.row, each)["cancel_cause"] for each in others}
    assert causes == {"client" if how == signal.SIGTERM else "shutdown"}
    assert all(site.ask(driver.attempts, each)[0]["settled_at"] for each in (unstoppable, *others))
    assert not site.processes()
    assert steps.read_text() == written


def ended_as(site: Site, request_id: str) -> tuple[str, str]:
    row = site.ask(driver.row, request_id)
    return row["status"], row["stage"]
