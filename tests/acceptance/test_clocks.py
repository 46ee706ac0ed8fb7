"""D6: hosts whose clocks differ, and a clock that is set while the site runs. Calls go on and can be stopped."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.clocks import Clock
from tests.acceptance.situations import STEP
from tests.acceptance.test_endings import LOST_IN, commence
from tests.acceptance.test_tasks import create
from tests.support.site.layouts import closing
from tests.support.site.programs import STARTING
from tests.support.site.services import ServicesMissingError, own_services
from tests.support.site.stack import CONCURRENCY, MANAGE, SETTINGS, Stack
from tests.support.site.wire import message, text
from tests.support.waiting import eventually

pytestmark = [pytest.mark.fault("D6"), pytest.mark.timeout(300)]
TWICE_LOST_AFTER = 6.0
TEN_MINUTES = 600
AN_HOUR = 3600


def lines(steps: Path) -> int:
    return len(steps.read_text().splitlines()) if steps.exists() else 0


def goes_on(steps: Path, seconds: float = TWICE_LOST_AFTER) -> None:
    """Wait until the tool has taken as many more steps as fit into that time."""
    wanted = lines(steps) + round(seconds / STEP)
    eventually(lambda: lines(steps) >= wanted, lambda: f"{wanted} steps, only {lines(steps)}", 10 * seconds)


def assert_it_stops_when_left(site: Stack, steps: Path) -> None:
    call = commence(site, steps)
    call.close()
    row = site.ended(call)
    assert (row.status, row.cancel_cause) == ("cancelled", "disconnect")


def assert_limit_holds(site: Stack, clock: Clock | None, steps: Path) -> None:
    with site.limited("sleep_sync", time_limit=3.0):
        call = commence(site, steps)
        if clock is not None:
            clock.set(-TEN_MINUTES)
        row = site.ended(call, within=LOST_IN)
    assert (row.status, row.cancel_cause) == ("cancelled", "deadline")


def assert_progress_is_in_order(site: Stack) -> None:
    arguments = {"steps": 5, "delay": STEP}
    call = site.post(message("tools/call", name="progress", arguments=arguments, meta={"progressToken": "steps"}))
    told = [each["params"]["progress"] for each in call.messages() if "method" in each]
    assert told
    assert told == sorted(told)
    assert site.ended(call).status == "completed"


def assert_a_dead_worker_is_found(site: Stack, steps: Path) -> None:
    call = commence(site, steps)
    [worker] = site.workers().values()
    os.kill(worker, signal.SIGKILL)
    row = site.ended(call, within=2 * LOST_IN)
    assert row.status == "lost"


def test_D6_a_clock_that_is_set_while_the_site_runs_loses_nothing_and_stops_no_limit(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    with closing(Stack(tmp_path, clock.environment, workers=1)) as site:
        site.serve_from(site.start_embedded(CONCURRENCY))
        site.restore_workers()
        steps = tmp_path / "steps"
        call = commence(site, steps)
        for seconds in (TEN_MINUTES, 0):
            clock.set(seconds)
            goes_on(steps)
            assert site.row(call).status == "running"
            assert text(site.call("echo", text="still here").result()) == "still here"
            assert_progress_is_in_order(site)
        assert_limit_holds(site, clock, tmp_path / "limited")
        call.close()
        assert site.ended(call).cancel_cause == "disconnect"
        assert_a_dead_worker_is_found(site, tmp_path / "lost")
        site.restore_workers()
        assert_it_stops_when_left(site, tmp_path / "left")
        site.settle()


@pytest.mark.fault("I6")
def test_I6_what_runs_and_what_waits_survives_a_clock_that_is_set_forward_by_an_hour(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    with closing(Stack(tmp_path, clock.environment, workers=1)) as site:
        site.serve_from(site.start_embedded(CONCURRENCY))
        site.restore_workers()
        _, asking, _ = create(site, "confirm_delete", filename="a.txt")
        eventually(lambda: site.ask("request", id=asking.id)["status"] == "input_required", "it asks")
        steps = tmp_path / "steps"
        calls = [commence(site, steps), commence(site, tmp_path / "more")]
        queued = site.call("count", path=str(tmp_path / "count"))
        assert site.row(queued).status == "queued"
        clock.set(AN_HOUR)
        goes_on(steps)
        assert [site.row(call).status for call in (*calls, queued)] == ["running", "running", "queued"]
        assert site.ask("request", id=asking.id)["status"] == "input_required"
        assert site.ask("attempts") == 0
        for call in calls:
            call.close()
        assert text(queued.result()) == "counted"
        assert_limit_holds(site, None, tmp_path / "limited")
        site.ask("cancel", request_id=asking.id, reason="enough")
        site.settle()


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Stack]:
    """A server whose clock is 10 minutes slow, and a worker whose clock is 10 minutes fast. The database's is right."""
    try:
        with own_services() as services, closing(Stack(tmp_path, services, workers=1)) as site:
            right = site.environment
            assert site.start(*MANAGE, "migrate", "--settings", SETTINGS, "--verbosity=0").wait(STARTING) == 0
            site.environment = right | Clock(tmp_path / "slow", -600).environment
            site.serve_from(site.start_embedded("--no-worker"))
            site.environment = right | Clock(tmp_path / "fast", 600).environment
            site.start_worker()
            site.environment = right
            site.restore_workers()
            yield site
    except ServicesMissingError as error:
        if os.environ.get("MCP_REQUIRE_ENGINES") == "1":
            pytest.fail(str(error))
        pytest.skip(f"NO PostgreSQL AND Redis: {error}")


@pytest.mark.engines
@pytest.mark.nightly
def test_D6_hosts_whose_clocks_are_twenty_minutes_apart_agree(apart: Stack, tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    call = commence(apart, steps)
    assert float(steps.read_text().split()[0]) > time.time() + 300, "the worker's clock is not fast"
    goes_on(steps)
    assert apart.row(call).status == "running"
    assert_progress_is_in_order(apart)
    assert_limit_holds(apart, None, tmp_path / "limited")
    assert_it_stops_when_left(apart, tmp_path / "left")
    call.close()
    assert apart.ended(call).cancel_cause == "disconnect"
    assert_a_dead_worker_is_found(apart, tmp_path / "lost")
    apart.restore_workers()
    apart.settle()
