"""The number of statements of the most frequent steps. Every call pays for an increase."""

from contextlib import contextmanager

import pytest
from django.db import DEFAULT_DB_ALIAS, connections
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.lifecycle.liveness import processes, vital_signs
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.observation import WatchedRequest
from mcp_app.lifecycle.statistics import tallies
from mcp_app.lifecycle.supervision import change_versions, rounds
from mcp_app.states import EventKind, ProcessRole, Status
from tests.support import rows

FRAME = ("BEGIN", "COMMIT")
SUBMITTING = {"sqlite": ("INSERT",), "postgresql": ("WITH",), "mysql": ("SELECT", "INSERT", "INSERT")}
ONE_STATEMENT = {"sqlite": "INSERT", "postgresql": "WITH", "mysql": "START"}
AND_A_LOOK = {"sqlite": ("INSERT", "SELECT"), "postgresql": ("WITH",), "mysql": ("START",)}
"""On MySQL, the one is a text of several statements."""


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


def test_submitting_costs_one_and_on_mysql_three():
    rows.queued()
    with statements(*SUBMITTING[databases.connection().vendor]):
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


def test_ending_a_run_costs_one(worker):
    first, second = rows.running(worker), rows.running(worker)
    transitions.end_run(first, Status.COMPLETED, result=rows.RESULT)  # makes SQLite's trigger for the connection
    with statements(ONE_STATEMENT[databases.connection().vendor]):
        assert transitions.end_run(second, Status.COMPLETED, result=rows.RESULT)


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


def test_cancelling_a_running_request_costs_five(worker):
    row = rows.running(worker)
    with statements("SELECT", "SELECT", "INSERT", "UPDATE", "INSERT"):
        rows.cancel(row)


def test_cancelling_a_queued_request_costs_five():
    row = rows.queued()
    with statements("SELECT", "SELECT", "INSERT", "UPDATE", "INSERT"):
        rows.cancel(row)


@pytest.mark.parametrize("watchers", [1, 30])
def test_looking_costs_one_when_nothing_moved(worker, watchers):
    watched = {row.pk: WatchedRequest(row.event_seq, True) for row in (rows.running(worker) for _ in range(watchers))}
    with statements("SELECT"):
        observation.observe(watched)


@pytest.mark.parametrize("wants_events", [False, True])
def test_looking_costs_no_more_for_many_that_moved_but_on_mysql(worker, wants_events):
    moved = [rows.running(worker) for _ in range(10)]
    on_mysql = 2 + 10 * wants_events
    with statements(*["SELECT"] * (on_mysql if databases.connection().vendor == "mysql" else 1)):
        assert len(observation.observe({row.pk: WatchedRequest(1, wants_events) for row in moved})) == 10


def test_supervising_when_all_is_well_costs_twenty_seven(worker, server):
    change_versions.forget_old_versions()
    tallies.store_ended_days()  # a process does it once a day
    for _ in range(10):
        rows.running(worker, server=server)
    with statements(*["SELECT"] * 21, "DELETE", *["SELECT"] * 5):
        rounds.supervise()


def test_a_heartbeat_costs_one(worker):
    with statements("UPDATE"):
        processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
