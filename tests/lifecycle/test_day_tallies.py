"""Ended days are added up once, and statistics are the same with and without them."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app import databases
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.statistics import queries, tallies
from mcp_app.lifecycle.statistics.queries import Period
from mcp_app.models import DayTally, Request, Tally
from mcp_app.states import Cause, Stage, Status
from tests.lifecycle.tallied import ended, stopped, waited
from tests.support import rows

pytestmark = [pytest.mark.usefixtures("_now"), pytest.mark.django_db(databases="__all__")]

NOW = datetime(2026, 3, 10, 15, 40, tzinfo=UTC)
TODAY = datetime(2026, 3, 10, tzinfo=UTC)
MONTH = range(0, 24 * 33, 7)


@pytest.fixture
def _now(monkeypatch, settings):
    settings.TIME_ZONE = "UTC"
    monkeypatch.setattr(tallies, "_days_stored", None)
    monkeypatch.setattr(clock, "now", lambda: NOW)


def fill():
    """Calls of two tools over more than a month. Their durations have exact sums in any order."""
    for number in MONTH:
        hour = NOW.replace(minute=0) - timedelta(hours=number)
        ended(hour, tool="dig", count=number + 1, seconds=0.125 + number)
        ended(hour, Status.FAILED, tool="sow", seconds=2.0)
        waited(hour, 0.25, tool="sow")
        stopped(hour, Cause.ADMIN, Stage.KILL, seconds=3.0, tool="dig")


def told():
    """All statistics."""
    return (
        {(period, tool): queries.read(period, tool) for period in Period for tool in (None, "dig", "sow", "gone")},
        {period: queries.read_by_tool(period) for period in Period},
        [queries.read_for_tool(tool) for tool in ("dig", "sow", "gone")],
    )


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Auckland"])
def test_days_match_their_hours(zone):
    with override_settings(TIME_ZONE=zone):
        fill()
        by_hours = told()
        tallies.store_ended_days()
        assert DayTally.objects.values("begins_at").distinct().count() == 29
        assert told() == by_hours
        Tally.objects.filter(hour__lt=Period.MONTH.begins()[-1]).delete()
        assert queries.read(Period.MONTH) == by_hours[0][Period.MONTH, None], "it is read from the days"


def test_a_user_in_another_time_zone_has_days_of_that_zone():
    fill()
    with timezone.override("Asia/Tokyo"):
        by_hours = told()
        tallies.store_ended_days()
        assert told() == by_hours


def test_days_of_a_time_zone_that_the_site_had_before_are_forgotten():
    fill()
    with override_settings(TIME_ZONE="Asia/Tokyo"):
        tallies.store_ended_days()
    tallies.store_ended_days()
    assert set(DayTally.objects.values_list("zone", flat=True)) == {"UTC"}


def test_a_day_is_added_when_all_that_ended_in_it_is_counted(monkeypatch):
    request = rows.queued()
    rows.cancel(request)
    Request.objects.filter(pk=request.pk).update(finished_at=TODAY - timedelta(minutes=1))
    ended(TODAY - timedelta(hours=1))
    tallies.store_ended_days()
    assert not DayTally.objects.exists()
    Request.objects.update(tallied_at=NOW)
    monkeypatch.setattr(clock, "now", lambda: TODAY + tallies.COMMIT_MARGIN / 2)
    tallies.store_ended_days()
    assert not DayTally.objects.exists()
    monkeypatch.setattr(clock, "now", lambda: NOW)
    tallies.store_ended_days()
    assert {row.begins_at for row in DayTally.objects.all()} == {TODAY - timedelta(days=1)}


def test_each_day_is_added_once_and_forgotten_when_no_period_has_it(monkeypatch):
    fill()
    tallies.store_ended_days()
    monkeypatch.setattr(clock, "now", lambda: NOW + timedelta(days=1))
    by_hours = told()
    tallies.store_ended_days()
    assert told() == by_hours
    begins = set(DayTally.objects.values_list("begins_at", flat=True))
    assert (min(begins), max(begins)) == (TODAY - timedelta(days=28), TODAY)


def test_days_that_are_known_to_be_added_are_not_queried_again():
    fill()
    tallies.store_ended_days()
    with CaptureQueriesContext(databases.connection()) as asked:
        tallies.store_ended_days()
    assert not asked.captured_queries
