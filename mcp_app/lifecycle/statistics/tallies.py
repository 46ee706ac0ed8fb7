"""Count ended calls by hour, tool and how they ended.

Theory of operation
-------------------

A site may keep millions of requests, and requests are purged after some time. So the admin's pages
and the metrics never aggregate ended requests. They read `Tally` rows, which are few and are never purged, only merged:

1. *A tally is a sum.* It counts the calls with the same hour, tool, measure, status, cause, stage
   and bucket, and adds up their durations. Each call is counted once under RUN (`Measure`), even if
   it never ran, and also under WAIT and STOP if it waited for a worker or was stopped. Cause and
   stage are kept for cancelled calls only. A bucket is a range of durations (`durations`), so that
   medians can be estimated afterwards.

2. *Calls are counted by supervision* (`count_ended`), in batches, some seconds after they have
   ended. They are not counted in the transaction that ends them, because calls of one tool that end
   alike within an hour would then wait for each other.

3. *Each call is counted exactly once.* The transaction that adds a batch to the tallies also sets
   `tallied_at` of its requests. If another process counts or has counted any of them, nothing is
   stored, and the next round tries again. After the commit, the calls are logged (`call_log`).

4. *Old tallies are merged* (`fold_old`). Those older than `HOURLY_DAYS` move to the hour 00:00 UTC of
   their day, and those older than `DAILY_DAYS` to a single hour, `OLDEST_HOUR`. The sums over all
   rows never get smaller, so that Prometheus can use them as counters.

5. *Ended days are summed* (`store_ended_days`) in the site's time zone, to the hour in UTC, into
   `DayTally` rows. A page over 30 days then reads 30 days instead of 720 hours. A day has rows for
   each tool, and rows with an empty tool for all tools together. It is stored once, at least
   `COMMIT_MARGIN` after it has ended and when all its calls are counted, and deleted after a month.
   `queries` reads days that are not stored yet by their hours.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.statistics import call_log, durations
from mcp_app.lifecycle.statistics.durations import Durations
from mcp_app.lifecycle.statistics.queries import Period
from mcp_app.models import DayTally, Request, Tally
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Measure, Status

BATCH_SIZE: Final = 200
MAX_BATCHES: Final = 25
"""How many batches `count_ended` counts at most in one turn of supervision."""
DAY_SECONDS: Final = 86_400.0
HOURLY_DAYS: Final = 35
DAILY_DAYS: Final = 400
COMMIT_MARGIN: Final = timedelta(hours=1)
"""A call is assumed to be committed at most this long after its `finished_at`."""
OLDEST_HOUR: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS_NEEDED: Final = {"id", *durations.COLUMNS, *call_log.COLUMNS, "tool", "status", "cancel_cause", "stage"}
_COLUMNS_READ: Final = [field.attname for field in Request._meta.concrete_fields if field.attname in _COLUMNS_NEEDED]


@dataclass(frozen=True, slots=True, order=True)
class TallyKey:
    """The columns by which a Tally is found."""

    hour: datetime
    tool: str
    measure: str
    status: str
    cause: str
    stage: int
    bucket: int


@dataclass(slots=True)
class TallyTotal:
    """The numbers that are added to a Tally."""

    count: int = 0
    seconds: float = 0.0


_DAY_KEY: Final = ("tool", "measure", "status", "cause", "stage", "bucket")
_days_stored: tuple[str, datetime] | None = None
"""The time zone, and the midnight before which this process has stored all days."""


def count_ended() -> None:
    """Count ended calls that are not counted yet, at most `MAX_BATCHES` batches. A step of supervision."""
    for _ in range(MAX_BATCHES):
        if _count_batch() < BATCH_SIZE:
            return


def fold_old() -> int:
    """Merge the tallies of days older than `HOURLY_DAYS`, and all tallies older than `DAILY_DAYS`.

    Return by how many rows the table has become smaller.
    """
    removed = 0
    newer = Tally.objects.filter(hour__gt=OLDEST_HOUR)
    days = newer.filter(hour__lt=clock.from_now(-DAILY_DAYS * DAY_SECONDS))
    while oldest := days.order_by("hour").first():
        removed += _fold(oldest.hour.replace(hour=0), into=OLDEST_HOUR)
    today = clock.read().replace(hour=0, minute=0, second=0, microsecond=0)
    midnights = [today - timedelta(days=back) for back in range(HOURLY_DAYS, DAILY_DAYS + 2)]
    hours = newer.filter(hour__lt=clock.from_now(-HOURLY_DAYS * DAY_SECONDS)).exclude(hour__in=midnights)
    while oldest := hours.order_by("hour").first():
        day = oldest.hour.replace(hour=0)
        removed += _fold(day, into=day)
    return removed


def store_ended_days() -> None:
    """Sum each ended day of the last month, in the site's time zone. A step of supervision.

    Days that are stored are skipped. After a change of the time zone all of them are stored again. Days of
    other time zones, and older days, are deleted. Does nothing within `COMMIT_MARGIN` after midnight, or
    while calls of those days are not counted.
    """
    global _days_stored
    zone = timezone.get_default_timezone_name()
    with timezone.override(timezone.get_default_timezone()):
        midnights = Period.MONTH.begins()
    today = midnights[-1]
    if _days_stored == (zone, today) or clock.now() < today + COMMIT_MARGIN:
        return
    if uncounted().filter(finished_at__lt=today).exists():
        return
    known = set(DayTally.objects.filter(zone=zone).values_list("begins_at", flat=True).distinct())
    for begin, end in pairwise(midnights):  # oldest first: if this is interrupted, no day before the newest is missing
        if begin not in known:
            _store_day_of(zone, begin, end)
    DayTally.objects.exclude(zone=zone, begins_at__gte=midnights[0]).delete()
    _days_stored = (zone, today)


def uncounted() -> QuerySet[Request]:
    """Return the requests that have ended and are not in a tally yet."""
    return Request.objects.filter(finished_at__isnull=False, tallied_at__isnull=True).order_by()


def _count_batch() -> int:
    """Count one batch, and return its size, or 0 if another process was faster.

    Reads and adds up before the transaction begins, because a transaction blocks other writers on
    SQLite.
    """
    found = uncounted().values_list(*_COLUMNS_READ)[:BATCH_SIZE]
    batch = [Request.from_db(settings.DATABASE, _COLUMNS_READ, values) for values in found]
    return len(batch) if batch and _store(batch, _sums(batch)) else 0


@transactional
def _store(batch: Sequence[Request], sums: Mapping[TallyKey, TallyTotal]) -> bool:
    """Store the sums. Return false if another process counts, or has counted, any of the batch."""
    requests = uncounted().filter(pk__in=[row.pk for row in batch])
    # Without SKIP LOCKED (SQLite) this transaction is the only writer.
    can_skip_locked = databases.connection().features.has_select_for_update_skip_locked
    if can_skip_locked and len(requests.select_for_update(skip_locked=True).values_list("pk")) < len(batch):
        return False
    if requests.update(tallied_at=Now()) < len(batch):
        transaction.set_rollback(True, using=settings.DATABASE)
        return False
    _add(sums)
    databases.on_commit(lambda: call_log.log_calls(batch))
    return True


@transactional
def _fold(begin: datetime, *, into: datetime) -> int:
    """Merge the tallies of 24 hours from `begin` into one hour."""
    tallies = Tally.objects.filter(hour__gte=begin, hour__lt=begin + timedelta(days=1))
    old = list(tallies.select_for_update().order_by("pk"))
    Tally.objects.filter(pk__in=[row.pk for row in old]).delete()
    sums: defaultdict[TallyKey, TallyTotal] = defaultdict(TallyTotal)
    for row in old:
        total = sums[TallyKey(into, row.tool, row.measure, row.status, row.cause, row.stage, row.bucket)]
        total.count += row.count
        total.seconds += row.seconds
    _add(sums)
    return len(old) - len(sums)


def _sums(batch: Sequence[Request]) -> Mapping[TallyKey, TallyTotal]:
    sums: defaultdict[TallyKey, TallyTotal] = defaultdict(TallyTotal)
    for row in batch:
        for measure, seconds in _measured(row):
            total = sums[_key(row, measure, seconds)]
            total.count += 1
            total.seconds += seconds or 0.0
    return sums


def _add(sums: Mapping[TallyKey, TallyTotal]) -> None:
    """Add the sums to the tallies, in the order of their keys, so that two processes that count do not deadlock."""
    keys = sorted(sums)
    Tally.objects.bulk_create([Tally(**asdict(key), count=0, seconds=0.0) for key in keys], ignore_conflicts=True)
    for key in keys:
        total = sums[key]
        Tally.objects.filter(**asdict(key)).update(count=F("count") + total.count, seconds=F("seconds") + total.seconds)


def _measured(row: Request) -> Iterator[tuple[Measure, float | None]]:
    """Yield the measures of an ended request. RUN is always among them, with `None` if it did not run."""
    took = Durations.of(row)
    yield Measure.RUN, took.run
    if took.wait is not None:
        yield Measure.WAIT, took.wait
    if took.stop is not None:
        yield Measure.STOP, took.stop


def _key(row: Request, measure: Measure, seconds: float | None) -> TallyKey:
    assert row.finished_at is not None
    hour = row.finished_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    cause, stage = (row.cancel_cause, row.stage) if row.status == Status.CANCELLED else ("", 0)
    return TallyKey(hour, row.tool, measure.value, row.status, cause, stage, durations.bucket_of(seconds))


def _store_day_of(zone: str, begin: datetime, end: datetime) -> None:
    tallies = Tally.objects.filter(hour__gte=begin, hour__lt=end).order_by()
    found = tallies.values(*_DAY_KEY).annotate(calls=Sum("count"), total_seconds=Sum("seconds"))
    rows, all_tools = [], defaultdict[tuple[Any, ...], list[float]](lambda: [0, 0.0])
    for row in found:
        calls, seconds = row.pop("calls"), row.pop("total_seconds")
        rows.append(DayTally(zone=zone, begins_at=begin, **row, count=calls, seconds=seconds))
        total = all_tools[tuple(row[name] for name in _DAY_KEY[1:])]
        total[0] += calls
        total[1] += seconds
    for key, (calls, seconds) in all_tools.items():
        columns = dict(zip(_DAY_KEY[1:], key, strict=True))
        rows.append(DayTally(zone=zone, begins_at=begin, **columns, count=int(calls), seconds=seconds))
    _store_day(rows)


@transactional
def _store_day(rows: Sequence[DayTally]) -> None:
    """Store a day. Rows that another process has stored at the same time stay as they are."""
    DayTally.objects.bulk_create(rows, ignore_conflicts=True)
