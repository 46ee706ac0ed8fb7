"""D6: the database's clock may be set, and the clocks of the hosts do not matter."""

import time
from datetime import timedelta

import pytest

from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.sessions import call_connections, sessions
from mcp_app.lifecycle.supervision import purging, rounds
from mcp_app.models import Request
from mcp_app.states import Cause, EventKind, ProcessRole, Status
from tests.lifecycle.ageing import pass_time
from tests.support import rows

pytestmark = [pytest.mark.usefixtures("_unread"), pytest.mark.fault("D6")]
PATIENCE = 60.0
SESSION = {"protocol_version": "2025-11-25", "client_info": {}, "client_capabilities": {}, "subjects": ()}


def set_clock(seconds):
    """Set the database's clock forward: make its rows and the times read from it older."""
    pass_time(seconds)
    told, read_at = clock._reading._last
    clock._reading._last = (told - timedelta(seconds=seconds), read_at)


@pytest.fixture
def living(configure):
    """A live worker, on a site where processes are lost after two silent seconds."""
    configure(LOST_AFTER=2.0)
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity


def supervise_until_lost(row, living):
    """Wait until a dead process counts as dead, while another one sends heartbeats."""
    give_up_at = time.monotonic() + PATIENCE
    while rows.fresh(row).status != Status.LOST:
        assert time.monotonic() < give_up_at, "the dead are kept alive"
        processes.beat(living)
        rounds.supervise()
        time.sleep(0.05)


@pytest.fixture
def _unread(monkeypatch):
    """Forget what this process knows of clocks, as if it had just started."""
    monkeypatch.setattr(clock, "_reading", clock._ClockReading())


@pytest.mark.parametrize("seconds", [600, -600])
def test_a_clock_that_is_set_between_the_first_heartbeat_and_the_first_round_makes_no_process_silent(living, seconds):
    row = rows.running(living.boot_id)
    set_clock(seconds)
    rounds.supervise()
    assert rows.fresh(row).status == Status.RUNNING


@pytest.mark.parametrize("seconds", [600, -600])
def test_a_clock_that_is_set_makes_no_process_silent_and_keeps_no_dead_worker_alive(living, seconds):
    dead = Identity(ProcessRole.WORKER)
    processes.beat(dead)
    row, orphan = rows.running(living.boot_id), rows.running(dead.boot_id)
    rounds.supervise()
    set_clock(seconds)
    rounds.supervise()
    assert {rows.fresh(each).status for each in (row, orphan)} == {Status.RUNNING}
    supervise_until_lost(orphan, living)
    assert rows.fresh(row).status == Status.RUNNING


def test_a_time_limit_that_has_passed_ends_a_run_whatever_the_databases_clock_says(worker):
    row, asking = rows.running(worker), rows.asking(worker)
    assert rows.fresh(row).deadline_at > clock.now()
    rounds.cancel_at_limit(Request.objects.filter(pk__in=[row.pk, asking.pk]))
    assert rows.fresh(row).cancel_cause == Cause.DEADLINE
    assert rows.fresh(asking).status == Status.INPUT_REQUIRED


@pytest.mark.fault("I6")
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_I6_running_and_waiting_requests_survive_a_clock_that_is_set_by_an_hour(worker, configure, seconds):
    configure(TASK_TTL=1800.0, SESSION_IDLE_SECONDS=1800.0)
    session = sessions.begin(rows.OWNER, **SESSION)
    running, asking = rows.running(worker), rows.asking(worker)
    queued, hurried = rows.queued(), rows.queued(caller_limit=30.0)
    left = sessions.submit(rows.submission(session=session.pk, protocol_version="2025-11-25"))
    call_connections.record_disconnect(left.pk, None)
    task = task_handles.submit(rows.submission())
    rounds.supervise()
    set_clock(seconds)
    rounds.supervise()
    waiting = (running, asking, queued, hurried, left, task)
    assert [rows.fresh(row).cancel_cause for row in waiting] == [""] * 6
    assert [rows.outcomes(row) for row in waiting] == [[]] * 6
    assert sessions.find(session.pk, rows.OWNER) is not None
    assert rows.fresh(task).task_expires_at > clock.now()
    claimed = transitions.claim(hurried.pk, worker=worker, pid=1)
    assert claimed.run_limit == pytest.approx(30.0, abs=5.0)
    # From now on, the waits have their usual length.
    pass_time(1801)
    processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
    rounds.cancel_overdue_requests()
    assert {rows.fresh(row).cancel_cause for row in (asking, queued, task)} == {Cause.DEADLINE}


@pytest.mark.parametrize("seconds", [600, -600])
def test_events_keep_their_order_and_nothing_young_is_purged_when_the_clock_is_set(worker, seconds, configure):
    configure(REQUEST_RETENTION_DAYS=1)
    row = rows.running(worker)
    rounds.supervise()
    for number in (1, 2):
        assert transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": number})], progress=number)
        set_clock(seconds)
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert [data["progress"] for _, data in rows.story(row, EventKind.PROGRESS)] == [1, 2]
    assert rows.numbers(row) == [1, 2, 3, 4, 5]
    assert purging.purge_requests() == 0


@pytest.mark.parametrize("seconds", [600, -600])
def test_a_hosts_clock_is_not_used(worker, monkeypatch, seconds):
    row = rows.running(worker)
    ended = rows.running(worker)
    transitions.finish(ended.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    monkeypatch.setattr("django.utils.timezone.now", lambda: pytest.fail("the host was asked for the time"))
    rounds.supervise()
    assert rows.fresh(row).status == Status.RUNNING
    assert purging.purge_requests() == 0
