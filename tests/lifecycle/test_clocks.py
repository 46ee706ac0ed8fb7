"""D6: the clock of the database that is set, and those of the hosts, which nobody looks at."""

import time
from datetime import timedelta

import pytest

from mcp_app.lifecycle import clock, processes, purging, supervision, transitions
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Request
from mcp_app.states import Cause, EventKind, ProcessRole, Status
from tests.lifecycle import rows
from tests.lifecycle.ageing import pass_time

pytestmark = pytest.mark.fault("D6")
PATIENCE = 60.0


def set_clock(seconds):
    """Set the database's clock: by so much older is what it holds, and by so much behind what was read of it."""
    pass_time(seconds)
    told, read_at = clock._reading._last
    clock._reading._last = (told - timedelta(seconds=seconds), read_at)


@pytest.fixture
def living(configure):
    """A worker that lives, where who is silent for two seconds is lost."""
    configure(LOST_AFTER=2.0)
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity


def supervise_until_lost(row, living):
    """For as long as it takes to find the dead dead, with another who is heard all the while."""
    give_up_at = time.monotonic() + PATIENCE
    while rows.fresh(row).status != Status.LOST:
        assert time.monotonic() < give_up_at, "the dead are kept alive"
        processes.beat(living)
        supervision.supervise()
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def _unread(monkeypatch):
    """As in a process that has just started."""
    monkeypatch.setattr(clock, "_reading", clock._Reading())


@pytest.mark.parametrize("seconds", [600, -600])
def test_a_clock_that_is_set_between_a_first_beat_and_a_first_round_makes_nobody_silent(living, seconds):
    row = rows.running(living.boot_id)
    set_clock(seconds)
    supervision.supervise()
    assert rows.fresh(row).status == Status.RUNNING


@pytest.mark.parametrize("seconds", [600, -600])
def test_a_clock_that_is_set_makes_nobody_silent_and_keeps_no_dead_worker_alive(living, seconds):
    dead = Identity(ProcessRole.WORKER)
    processes.beat(dead)
    row, orphan = rows.running(living.boot_id), rows.running(dead.boot_id)
    supervision.supervise()
    set_clock(seconds)
    supervision.supervise()
    assert {rows.fresh(each).status for each in (row, orphan)} == {Status.RUNNING}
    supervise_until_lost(orphan, living)
    assert rows.fresh(row).status == Status.RUNNING


def test_a_time_limit_that_has_passed_ends_a_run_whatever_the_databases_clock_says(worker):
    row, asking = rows.running(worker), rows.asking(worker)
    assert rows.fresh(row).deadline_at > clock.now()
    supervision.cancel_at_limit(Request.objects.filter(pk__in=[row.pk, asking.pk]))
    assert rows.fresh(row).cancel_cause == Cause.DEADLINE
    assert rows.fresh(asking).status == Status.INPUT_REQUIRED


@pytest.mark.parametrize("seconds", [600, -600])
def test_events_keep_their_order_and_nothing_young_is_purged_when_the_clock_is_set(worker, seconds, configure):
    configure(REQUEST_RETENTION_DAYS=1)
    row = rows.running(worker)
    supervision.supervise()
    for number in (1, 2):
        assert transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": number})], progress=number)
        set_clock(seconds)
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert [data["progress"] for _, data in rows.story(row, EventKind.PROGRESS)] == [1, 2]
    assert rows.numbers(row) == [1, 2, 3, 4, 5]
    assert purging.purge_requests() == 0


@pytest.mark.parametrize("seconds", [600, -600])
def test_a_hosts_clock_is_nobodys(worker, monkeypatch, seconds):
    row = rows.running(worker)
    ended = rows.running(worker)
    transitions.finish(ended.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    monkeypatch.setattr("django.utils.timezone.now", lambda: pytest.fail("the host was asked for the time"))
    supervision.supervise()
    assert rows.fresh(row).status == Status.RUNNING
    assert purging.purge_requests() == 0
