"""One statement stores the reports of many running calls, with the same effect as one statement for each."""

import pytest

from mcp_app import databases
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.statements import Addition
from mcp_app.models import RequestEvent
from mcp_app.states import EventKind, Status
from tests.support import rows


def _progress(done, message="on its way"):
    columns = {"progress": done, "progress_total": 10.0, "progress_message": message}
    return [Event(EventKind.PROGRESS, {"progress": done, "total": 10, "message": message})], columns


def _log(*texts):
    return [Event(EventKind.LOG, {"level": "info", "data": text}) for text in texts], {}


def _told(row):
    return list(RequestEvent.objects.filter(request=row).order_by("seq").values_list("seq", "kind", "data"))


@pytest.fixture(name="woken")
def _woken(monkeypatch):
    found = []
    monkeypatch.setattr(wakeups, "wake_server", lambda *told: found.append(told))
    return found


def test_each_is_told_as_if_it_were_told_alone(worker, server, woken):
    together = [rows.running(worker, server=server) for _ in range(3)]
    alone = [rows.running(worker, server=server) for _ in range(3)]
    told = [_progress(3.5), _log("one", "two"), _progress(4.0, "almost")]
    del woken[:]
    transitions.record_all([Addition(row.pk, *each) for row, each in zip(together, told, strict=True)])
    [(told_to, named)] = woken
    assert told_to == server
    assert set(named) == {row.pk for row in together}
    for row, other, (events, columns) in zip(together, alone, told, strict=True):
        transitions.record(other.pk, events, **columns)
        assert _told(row) == _told(other)
        ours, theirs = rows.fresh(row), rows.fresh(other)
        for name in ("event_seq", "progress", "progress_total", "progress_message"):
            assert getattr(ours, name) == getattr(theirs, name)


def test_a_line_of_a_log_leaves_the_progress_as_it_was(worker):
    first, second = rows.running(worker), rows.running(worker)
    transitions.record_all([Addition(row.pk, *_progress(5.0)) for row in (first, second)])
    transitions.record_all([Addition(first.pk, *_log("one")), Addition(second.pk, *_progress(6.0, ""))])
    assert (rows.fresh(first).progress, rows.fresh(first).progress_message) == (5.0, "on its way")
    assert (rows.fresh(second).progress, rows.fresh(second).progress_message) == (6.0, "")
    assert [seq for seq, _, _ in _told(first)] == list(range(1, rows.fresh(first).event_seq + 1))


def test_of_one_that_runs_no_more_nothing_is_told(worker):
    over, running = rows.running(worker), rows.running(worker)
    transitions.finish(over.pk, Status.COMPLETED, worker=worker, result={})
    before = _told(over)
    transitions.record_all([Addition(row.pk, *_progress(1.0)) for row in (over, running)])
    assert _told(over) == before
    assert rows.fresh(over).progress is None
    assert rows.fresh(running).progress == 1.0


def test_what_no_database_takes_is_told_all_the_same(worker):
    first, second = rows.running(worker), rows.running(worker)
    transitions.record_all([Addition(row.pk, *_progress(float("nan"), "a\x00b\ud800")) for row in (first, second)])
    assert rows.fresh(first).progress_message == "a\ufffdb\ufffd"
    assert rows.fresh(first).progress is None


def test_they_cost_one_statement_and_on_sqlite_a_look_at_who_waits(worker, django_assert_num_queries):
    running = [rows.running(worker) for _ in range(5)]
    transitions.record_all([Addition(row.pk, *_progress(1.0)) for row in running])

    connection = databases.connection()
    with django_assert_num_queries(2 if connection.vendor == "sqlite" else 1, connection=connection):
        transitions.record_all([Addition(row.pk, *_progress(2.0)) for row in running])
