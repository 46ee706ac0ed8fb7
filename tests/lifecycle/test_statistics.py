"""Statistics match the tallies: by hour, by the site's days, by cause and stage, and by tool."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app import databases
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.statistics import durations, live_numbers, queries, tallies
from mcp_app.lifecycle.statistics.queries import Period, Quantiles
from mcp_app.models import Request
from mcp_app.states import Cause, ProcessRole, Stage, Status
from tests.lifecycle.tallied import ended, stopped, waited
from tests.support import rows

pytestmark = pytest.mark.usefixtures("_now")


NOW = datetime(2026, 3, 10, 15, 40, tzinfo=UTC)
HOUR = NOW.replace(minute=0)
NOTHING = Quantiles(None, None)


@pytest.fixture
def _now(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: NOW)


def within(lengths, seconds):
    """Return whether both quantiles are in the bucket of this duration."""
    bucket = durations.bucket_of(seconds)
    return {durations.bucket_of(length) for length in (lengths.p50, lengths.p95)} == {bucket}


def calls(found):
    """The number of ended calls by interval, without empty intervals."""
    return {begin: figures.calls for begin, figures in found.intervals if figures.calls}


def test_the_last_24_hours_are_the_one_that_runs_and_23_before():
    ended(HOUR, count=2)
    ended(HOUR - timedelta(hours=23), Status.FAILED)
    ended(HOUR - timedelta(hours=24), count=50)
    found = queries.read(Period.DAY)
    assert len(found.intervals) == 24
    assert calls(found) == {HOUR: 2, HOUR - timedelta(hours=23): 1}
    assert found.whole.ends == {Status.COMPLETED: 2, Status.FAILED: 1, Status.CANCELLED: 0, Status.LOST: 0}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"])
@pytest.mark.parametrize("period", [Period.WEEK, Period.MONTH], ids=lambda period: period.value)
def test_a_day_begins_where_the_time_zone_says(zone, period):
    number = {Period.WEEK: 7, Period.MONTH: 30}[period]
    with timezone.override(ZoneInfo(zone)):
        today = NOW.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0)
        first = (today.replace(tzinfo=None) - timedelta(days=number - 1)).replace(tzinfo=ZoneInfo(zone))
        begins = (first.astimezone(UTC) + timedelta(minutes=59)).replace(minute=0)
        ended(begins, count=3)
        ended(begins - timedelta(hours=1), count=50)
        ended(HOUR)
        found = queries.read(period)
    assert [begin for begin, _ in found.intervals][:: number - 1] == [first, today]
    assert calls(found) == {first: 3, today: 1}


def test_a_day_of_23_hours_is_a_day():
    zone = ZoneInfo("America/New_York")  # 2026-03-08 has 23 hours
    with timezone.override(zone):
        for hour in range(-2, 26):
            ended(datetime(2026, 3, 8, 5, tzinfo=UTC) + timedelta(hours=hour))
        found = calls(queries.read(Period.WEEK))
    assert {begin.day: number for begin, number in found.items()} == {7: 2, 8: 23, 9: 3}


def test_durations_are_those_of_runs_waits_and_stops():
    ended(HOUR, count=99, seconds=0.1)
    ended(HOUR, Status.FAILED, count=1, seconds=300.0)
    ended(HOUR, Status.LOST, count=7, seconds=None)
    waited(HOUR, 5.0, count=3)
    stopped(HOUR, Cause.CLIENT, Stage.KILL, seconds=20.0)
    whole = queries.read(Period.DAY).whole
    assert within(whole.run, 0.1)
    assert within(whole.wait, 5.0)
    assert within(whole.stop, 20.0)
    assert whole.failed_share == pytest.approx(8 / 108)
    assert whole.cancelled_share == pytest.approx(1 / 108)


def test_cancellations_are_grouped_by_cause_and_stage_with_the_time_to_their_stop():
    stopped(HOUR, Cause.ADMIN, Stage.INTERRUPT, seconds=2.0, count=4)
    stopped(HOUR - timedelta(hours=2), Cause.ADMIN, Stage.INTERRUPT, seconds=2.0)
    stopped(HOUR, Cause.ADMIN, Stage.KILL, seconds=9.0)
    stopped(HOUR, Cause.DISCONNECT, seconds=0.002)
    found = queries.read(Period.DAY).stops
    assert [(each.cause, each.stage, each.count) for each in found] == [
        (Cause.DISCONNECT, Stage.NONE, 1),
        (Cause.ADMIN, Stage.INTERRUPT, 5),
        (Cause.ADMIN, Stage.KILL, 1),
    ]
    assert all(within(each.latency, seconds) for each, seconds in zip(found, (0.002, 2.0, 9.0), strict=True))


def test_statistics_by_tool_have_the_most_used_tool_first():
    ended(HOUR, count=2, tool="sow")
    ended(HOUR, Status.FAILED, count=2, tool="sow")
    ended(HOUR, count=9, tool="dig", seconds=0.01)
    stopped(HOUR, Cause.CLIENT, seconds=1.0, tool="dig")
    ended(HOUR - timedelta(hours=30), tool="mow")
    found = queries.read_by_tool(Period.DAY)
    assert [(tool, figures.calls, figures.failed_share) for tool, figures in found] == [("dig", 10, 0), ("sow", 4, 0.5)]
    assert within(found[0][1].run, 0.01)
    assert queries.read(Period.DAY, "sow").whole.calls == 4
    assert queries.read(Period.DAY, "nothing").whole.calls == 0


def test_one_tool_has_statistics_over_each_period():
    for back, count in ((0, 1), (22, 2), (100, 4), (600, 8), (1000, 16)):
        ended(HOUR - timedelta(hours=back), count=count)
        ended(HOUR - timedelta(hours=back), count=100, tool="sow")
    found = queries.read_for_tool("dig")
    assert {period: figures.calls for period, figures in found.items()} == {
        Period.DAY: 3,
        Period.WEEK: 7,
        Period.MONTH: 15,
    }


def test_a_period_without_calls_has_no_shares_and_quantiles():
    found = queries.read(Period.MONTH)
    assert (found.whole.calls, found.whole.run, found.whole.failed_share) == (0, NOTHING, None)
    assert (found.stops, queries.read_by_tool(Period.MONTH)) == ([], [])


def test_statistics_match_the_counted_calls(worker, monkeypatch):
    monkeypatch.undo()
    transitions.finish(rows.running(worker).pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    rows.cancel(rows.queued(), Cause.ADMIN)
    tallies.count_ended()
    found = queries.read(Period.DAY)
    assert {status: count for status, count in found.whole.ends.items() if count} == {
        Status.COMPLETED: 1,
        Status.CANCELLED: 1,
    }
    assert [(each.cause, each.count) for each in found.stops] == [(Cause.ADMIN, 1)]


def test_live_numbers_are_open_requests_queues_and_processes(worker, server):
    rows.running(worker)
    rows.stopping(worker)
    rows.asking(worker)
    waiting = [rows.queued(queue="slow"), rows.queued(queue="slow")]
    found = live_numbers.read()
    assert found.in_flight == {Status.QUEUED: 2, Status.RUNNING: 2, Status.INPUT_REQUIRED: 1}
    assert found.to_stop == 1
    assert [(each.queue, each.waiting) for each in found.queues] == [("slow", len(waiting))]
    assert found.alive == {ProcessRole.WORKER: 1, ProcessRole.SERVER: 1, ProcessRole.SUPERVISOR: 0}


def test_the_lag_is_the_age_of_the_oldest_uncounted_call(worker):
    assert live_numbers.lag() == 0
    for minutes in (1, 2, 9, 5, 3, 4):
        row = rows.running(worker)
        transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
        earlier = F("finished_at") - timedelta(minutes=minutes)
        Request.objects.filter(pk=row.pk).update(finished_at=earlier)
    assert 9 * 60 <= live_numbers.lag() < 11 * 60
    tallies.count_ended()
    assert live_numbers.lag() == 0


def test_a_period_costs_three_statements_a_tool_s_periods_and_the_live_numbers_four(monkeypatch):
    ended(HOUR)
    ended(HOUR - timedelta(days=3))
    monkeypatch.setattr(tallies, "_days_stored", None)
    tallies.store_ended_days()
    for read, most in (
        (lambda: queries.read(Period.DAY), 1),
        (lambda: queries.read(Period.MONTH), 3),
        (lambda: queries.read_by_tool(Period.MONTH), 3),
        (lambda: queries.read_for_tool("dig"), 4),
        (live_numbers.read, 4),
    ):
        with CaptureQueriesContext(databases.connection()) as asked:
            read()
        assert len(asked) == most
