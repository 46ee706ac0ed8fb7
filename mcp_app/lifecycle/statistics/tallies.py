"""Count ended calls by hour, tool and outcome.

Theory of operation
-------------------

A site may keep millions of requests, and requests are purged after some time. So the admin's pages
and the metrics never aggregate ended requests. They read `Tally` rows, which are few and are kept:

1. *A tally is a sum.* It counts the calls with the same hour, tool, measure, status, cause, stage
   and bucket, and adds up their durations. Each call is counted under up to three measures
   (`Measure`): its run, its wait for a worker, and the time that it took to stop. A bucket is a
   range of durations (`durations`), so that medians can be estimated afterwards.

2. *Calls are counted by supervision* (`count_ended`), in batches, some seconds after they have
   ended. They are not counted in the transaction that ends them, because all calls of an hour would
   then wait for the same row.

3. *Each call is counted exactly once.* The transaction that adds a batch to the tallies also sets
   `tallied_at` of its requests. If another process has counted any of them, the transaction is
   rolled back. After the commit, the calls are logged (`call_log`).

4. *Old tallies are merged* (`fold_old`): hours into days after `HOURLY_DAYS`, and everything into
   one hour, `BEFORE`, after `DAILY_DAYS`. The sums over all rows never get smaller, so that
   Prometheus can use them as counters.

5. *Ended days are added up once more* (`add_ended_days`), in the site's time zone, into `DayTally`
   rows. A page over 30 days then reads 30 days instead of 720 hours. A day is added when all its
   calls are counted, and does not change afterwards. `queries` reads days that are not added yet by
   their hours.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet, Sum
from django.db.models.functions import Now, TruncDay
from django.utils import timezone

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.database.locks import transactional
from mcp_app.lifecycle.statistics import call_log, durations
from mcp_app.lifecycle.statistics.durations import Durations
from mcp_app.lifecycle.statistics.queries import Period
from mcp_app.models import DayTally, Request, Tally
from mcp_app.states import Measure, Status

BATCH: Final = 200
BATCHES: Final = 25
"""The most batches of one round."""
DAY: Final = 86_400.0
HOURLY_DAYS: Final = 35
DAILY_DAYS: Final = 400
SETTLED: Final = timedelta(hours=1)
"""How long after midnight a transaction may still commit a call that ended on the day before."""
BEFORE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDED: Final = {"id", *durations.COLUMNS, *call_log.COLUMNS, "tool", "status", "cancel_cause", "stage"}
_READ: Final = [field.attname for field in Request._meta.concrete_fields if field.attname in _NEEDED]


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


_KEY_NAMES: Final = tuple(each.name for each in fields(TallyKey))
_TOTAL_NAMES: Final = tuple(each.name for each in fields(TallyTotal))
_NAMED: Final = {each.name: each for each in Tally._meta.concrete_fields}
_FIELDS: Final = [_NAMED[name] for name in (*_KEY_NAMES, *_TOTAL_NAMES)]
_ADD: Final = """
INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT ({key}) DO UPDATE SET {sums}
""".format(
    table=Tally._meta.db_table,
    names=", ".join((*_KEY_NAMES, *_TOTAL_NAMES)),
    places=", ".join("%s" for _ in _FIELDS),
    key=", ".join(_KEY_NAMES),
    sums=", ".join(f"{name} = {Tally._meta.db_table}.{name} + excluded.{name}" for name in _TOTAL_NAMES),
)
_DAY_KEY: Final = ("tool", "measure", "status", "cause", "stage", "bucket")
_days_added: tuple[str, datetime] | None = None
"""The time zone and the day up to which this process has added all days."""


def count_ended() -> None:
    """Count the calls that ended since the last round. A step of supervision."""
    for _ in range(BATCHES):
        if _count_batch() < BATCH:
            return


def fold_old() -> int:
    """Merge the tallies of days older than `HOURLY_DAYS`, and all tallies older than `DAILY_DAYS`.

    Return how many rows that saves.
    """
    saved = 0
    hours = Tally.objects.exclude(hour=TruncDay("hour", tzinfo=UTC)).filter(hour__lt=clock.from_now(-HOURLY_DAYS * DAY))
    while oldest := hours.order_by("hour").first():
        day = oldest.hour.replace(hour=0)
        saved += _fold(day, into=day)
    days = Tally.objects.filter(hour__gt=BEFORE, hour__lt=clock.from_now(-DAILY_DAYS * DAY))
    while oldest := days.order_by("hour").first():
        saved += _fold(oldest.hour, into=BEFORE)
    return saved


def add_ended_days() -> None:
    """Add up each ended day of the last month, in the site's time zone. A step of supervision.

    Days that are missing are added as well, for example all of them after the time zone was
    changed. Days of other time zones, and older days, are deleted.
    """
    global _days_added
    zone = timezone.get_default_timezone_name()
    with timezone.override(timezone.get_default_timezone()):
        begins = Period.MONTH.begins()
    today = begins[-1]
    if _days_added == (zone, today) or clock.now() < today + SETTLED:
        return
    if uncounted().filter(finished_at__lt=today).exists():
        return
    known = set(DayTally.objects.filter(zone=zone).values_list("begins_at", flat=True).distinct())
    for begin, end in pairwise(begins):  # oldest first, so that no day before the newest is missing
        if begin not in known:
            _add_day(zone, begin, end)
    DayTally.objects.exclude(zone=zone, begins_at__gte=begins[0]).delete()
    _days_added = (zone, today)


def uncounted() -> QuerySet[Request]:
    """Return the requests that have ended and are not in a tally yet."""
    return Request.objects.filter(finished_at__isnull=False, tallied_at__isnull=True).order_by()


def _count_batch() -> int:
    """Count one batch, and return its size, or 0 if it could not be stored.

    Reads and adds up before the transaction begins, because a transaction blocks other writers on
    SQLite.
    """
    found = uncounted().values_list(*_READ)[:BATCH]
    batch = [Request.from_db(settings.DATABASE, _READ, values) for values in found]
    return len(batch) if batch and _store(batch, _rows(_sums(batch))) else 0


@transactional
def _store(batch: Sequence[Request], added: Sequence[Sequence[Any]]) -> bool:
    """Store the sums. Return false if another process counts, or has counted, any of the batch."""
    rows = uncounted().filter(pk__in=[row.pk for row in batch])
    locks_rows = databases.connection().features.has_select_for_update_skip_locked  # else there is no other writer now
    if locks_rows and len(rows.select_for_update(skip_locked=True).values_list("pk")) < len(batch):
        return False
    if rows.update(tallied_at=Now()) < len(batch):
        transaction.set_rollback(True, using=settings.DATABASE)
        return False
    _add(added)
    databases.on_commit(lambda: call_log.log_calls(batch))
    return True


@transactional
def _fold(day: datetime, *, into: datetime) -> int:
    hours = Tally.objects.filter(hour__gte=day, hour__lt=day + timedelta(days=1))
    old = list(hours.select_for_update().order_by("pk"))
    Tally.objects.filter(pk__in=[row.pk for row in old]).delete()
    sums: defaultdict[TallyKey, TallyTotal] = defaultdict(TallyTotal)
    for row in old:
        added = sums[TallyKey(into, row.tool, row.measure, row.status, row.cause, row.stage, row.bucket)]
        added.count += row.count
        added.seconds += row.seconds
    _add(_rows(sums))
    return len(old) - len(sums)


def _sums(batch: Sequence[Request]) -> Mapping[TallyKey, TallyTotal]:
    sums: defaultdict[TallyKey, TallyTotal] = defaultdict(TallyTotal)
    for row in batch:
        for measure, seconds in _measured(row):
            added = sums[_key(row, measure, seconds)]
            added.count += 1
            added.seconds += seconds or 0.0
    return sums


def _rows(sums: Mapping[TallyKey, TallyTotal]) -> list[list[Any]]:
    """Return the parameters of `_ADD`, sorted, so that two processes cannot deadlock."""
    connection = databases.connection()
    rows = [(*astuple(key), sums[key].count, sums[key].seconds) for key in sorted(sums)]
    return [
        [field.get_db_prep_save(value, connection) for field, value in zip(_FIELDS, row, strict=True)] for row in rows
    ]


def _add(added: Sequence[Sequence[Any]]) -> None:
    with databases.connection().cursor() as cursor:
        cursor.executemany(_ADD, added)


def _measured(row: Request) -> Iterator[tuple[Measure, float | None]]:
    """Yield the measures of an ended request. RUN always comes, with `None` if it did not run."""
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


def _add_day(zone: str, begin: datetime, end: datetime) -> None:
    hours = Tally.objects.filter(hour__gte=begin, hour__lt=end).order_by()
    found = hours.values(*_DAY_KEY).annotate(number=Sum("count"), length=Sum("seconds"))
    rows, together = [], defaultdict[tuple[Any, ...], list[float]](lambda: [0, 0.0])
    for row in found:
        number, length = row.pop("number"), row.pop("length")
        rows.append(DayTally(zone=zone, begins_at=begin, **row, count=number, seconds=length))
        summed = together[tuple(row[name] for name in _DAY_KEY[1:])]
        summed[0] += number
        summed[1] += length
    for key, (number, length) in together.items():
        named = dict(zip(_DAY_KEY[1:], key, strict=True))
        rows.append(DayTally(zone=zone, begins_at=begin, **named, count=int(number), seconds=length))
    _store_day(rows)


@transactional
def _store_day(rows: Sequence[DayTally]) -> None:
    """Store all of a day or nothing. Another process may have stored it at the same time."""
    DayTally.objects.bulk_create(rows, ignore_conflicts=True)
