"""How many statements the hot steps cost. A number that grows here is paid for by every call."""

from contextlib import contextmanager, nullcontext

import pytest
from django.db import DEFAULT_DB_ALIAS, connections
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.lifecycle import day_tallies, forgetting, observation, processes, supervision, transitions, vital_signs
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.moved import Watch
from mcp_app.lifecycle.processes import Identity
from mcp_app.states import EventKind, ProcessRole, Status
from tests.lifecycle import rows
from tests.lifecycle.rows import celery_result

FRAME = ("BEGIN", "COMMIT")
ONE_STATEMENT = {"sqlite": "INSERT", "postgresql": "WITH"}
AND_A_LOOK = {"sqlite": ("INSERT", "SELECT"), "postgresql": ("WITH",)}


@contextmanager
def statements(*verbs):
    """Expect these statements, in this order, in one transaction or none, and no savepoint."""
    elsewhere = connections[DEFAULT_DB_ALIAS]
    with CaptureQueriesContext(databases.connection()) as captured, CaptureQueriesContext(elsewhere) as strays:
        yield
    executed = [query["sql"].split()[0] for query in captured.captured_queries]
    assert [verb for verb in executed if verb not in FRAME] == list(verbs)
    if elsewhere is not databases.connection():
        assert strays.captured_queries == []


def test_submitting_costs_one():
    rows.queued()
    with statements(ONE_STATEMENT[databases.connection().vendor]):
        rows.queued()


def test_claiming_costs_one_and_on_sqlite_a_look_at_the_row(worker):
    rows.running(worker)
    row = rows.queued()
    with statements(*AND_A_LOOK[databases.connection().vendor]):
        assert transitions.claim(row.pk, worker=worker, pid=1) is not None


def test_a_claim_that_comes_too_late_costs_one(worker):
    row = rows.running(worker)
    with statements(ONE_STATEMENT[databases.connection().vendor]):
        assert transitions.claim(row.pk, worker=worker, pid=1) is None


def test_reading_the_vital_signs_of_many_costs_one(worker):
    calls = {row.pk for row in (rows.queued(), rows.running(worker))}
    with statements("SELECT"):
        assert vital_signs.read(calls).keys() == calls


def test_ending_a_run_costs_one_with_celerys_result(worker):
    ended, row = rows.running(worker), rows.running(worker)
    for each in (ended, row):
        result = celery_result(each).stored()
        with statements(ONE_STATEMENT[databases.connection().vendor]) if each is row else nullcontext():
            assert transitions.end_run(each, Status.COMPLETED, result=rows.RESULT, celery_result=result)


def test_finishing_costs_three(worker):
    row = rows.running(worker)
    with statements("SELECT", "UPDATE", "INSERT"):
        transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)


def test_finishing_what_was_cancelled_costs_the_audit_more(worker):
    row = rows.stopping(worker)
    with statements("SELECT", "UPDATE", "INSERT", "SELECT", "SELECT", "UPDATE"):
        transitions.finish(row.pk, Status.CANCELLED, worker=worker)


def test_recording_writes_with_one_statement_however_many_events(worker):
    row = rows.running(worker)
    transitions.record(row.pk, [Event(EventKind.LOG, {})])
    with statements(*AND_A_LOOK[databases.connection().vendor]):
        transitions.record(row.pk, [Event(EventKind.LOG, {})] * 50)


def test_cancelling_a_running_request_costs_four(worker):
    row = rows.running(worker)
    with statements("SELECT", "INSERT", "UPDATE", "INSERT"):
        rows.cancel(row)


def test_cancelling_a_queued_request_costs_four():
    row = rows.queued()
    with statements("SELECT", "INSERT", "UPDATE", "INSERT"):
        rows.cancel(row)


@pytest.mark.parametrize("watchers", [1, 30])
def test_looking_costs_one_when_nothing_moved(worker, watchers):
    watched = {row.pk: Watch(row.event_seq, True) for row in (rows.running(worker) for _ in range(watchers))}
    with statements("SELECT"):
        observation.observe(watched)


@pytest.mark.parametrize("wants_events", [False, True])
def test_looking_costs_no_more_for_many_that_moved(worker, wants_events):
    moved = [rows.running(worker) for _ in range(10)]
    with statements("SELECT"):
        assert len(observation.observe({row.pk: Watch(1, wants_events) for row in moved})) == 10


def test_supervising_when_all_is_well_costs_twenty_five(worker, server):
    forgetting.forget_old_versions()
    day_tallies.add_ended_days()  # a process does it once a day
    for _ in range(10):
        rows.running(worker, server=server)
    with statements(*["SELECT"] * 19, "DELETE", *["SELECT"] * 5):
        supervision.supervise()


def test_a_heartbeat_costs_one(worker):
    with statements("UPDATE"):
        processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
