"""Times of rows are the same moments with `USE_TZ` on and off, in any time zone of the site."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mcp_app.lifecycle.database import clock
from mcp_app.models import Request, Token
from mcp_app.models.utc_date_time import Now
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

ZONE = "America/New_York"
TWICE = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6)]
"""Both are 01:30 in New York, where summer time ends between them."""


@pytest.fixture(autouse=True)
def _without_time_zones(settings: Any) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = ZONE


def is_now(moment: datetime) -> bool:
    return abs(moment - datetime.now(UTC)) < timedelta(minutes=1)


def test_times_of_the_database_and_of_the_hand_written_statements_are_aware() -> None:
    row = rows.queued()
    read = Request.objects.annotate(now=Now(), soon=clock.from_now(60)).get(pk=row.pk)
    assert is_now(row.submitted_at)
    assert is_now(read.submitted_at)
    assert is_now(read.now)
    assert is_now(clock.read())
    assert read.soon - read.now == timedelta(minutes=1)


def test_turning_time_zones_on_changes_no_time(settings: Any) -> None:
    row = rows.queued()
    without = Request.objects.get(pk=row.pk)
    settings.USE_TZ = True
    assert Request.objects.get(pk=row.pk).submitted_at == without.submitted_at
    Request.objects.filter(pk=row.pk).update(finished_at=without.submitted_at)
    settings.USE_TZ = False
    assert Request.objects.get(pk=row.pk, finished_at=without.submitted_at).finished_at == without.submitted_at


@pytest.mark.parametrize("moment", TWICE)
def test_the_hour_that_the_end_of_summer_repeats_is_not_ambiguous(moment: datetime) -> None:
    row = rows.queued()
    Request.objects.filter(pk=row.pk).update(finished_at=moment)
    assert Request.objects.get(pk=row.pk).finished_at == moment
    assert Request.objects.filter(finished_at=moment).exists()


def test_a_time_without_a_zone_is_in_the_sites_zone() -> None:
    given = datetime(2026, 7, 1, 12, 0)
    Token.objects.create(prefix="a", digest="", name="", user_id="1", user_label="", expires_at=given)
    assert Token.objects.get().expires_at == datetime(2026, 7, 1, 16, 0, tzinfo=UTC)
