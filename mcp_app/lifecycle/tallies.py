"""Counts of ended calls, by hour, tool, and how they ended: what statistics are made of, however many calls there were.

A step of supervision, in batches: each ended request is counted once, in the transaction that marks it as counted, and
told to the log when that is stored.
Refuses to count in the step that ends a call: everybody's calls would wait for the same row.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now, TruncDay

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import buckets, call_log, columns, lengths
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.lengths import Lengths
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import Request, Tally
from mcp_app.states import Measure, Status

BATCH: Final = 200
BATCHES: Final = 25
"""What one round counts at most."""
DAY: Final = 86_400.0
HOURLY_DAYS: Final = 35
DAILY_DAYS: Final = 400
BEFORE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_READ: Final = tuple(sorted({"id", *lengths.COLUMNS, *call_log.COLUMNS, "tool", "status", "cancel_cause", "stage"}))


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The columns by which a Tally is found."""

    hour: datetime
    tool: str
    measure: str
    status: str
    cause: str
    stage: int
    bucket: int


@dataclass(slots=True)
class Sum:
    """What is added to a Tally."""

    count: int = 0
    seconds: float = 0.0


_KEY_NAMES: Final = tuple(each.name for each in fields(Key))
_SUM_NAMES: Final = tuple(each.name for each in fields(Sum))
_NAMED: Final = {each.name: each for each in Tally._meta.concrete_fields}
_FIELDS: Final = [_NAMED[name] for name in (*_KEY_NAMES, *_SUM_NAMES)]
_ADD: Final = """
INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT ({key}) DO UPDATE SET {sums}
""".format(
    table=Tally._meta.db_table,
    names=", ".join((*_KEY_NAMES, *_SUM_NAMES)),
    places=", ".join("%s" for _ in _FIELDS),
    key=", ".join(_KEY_NAMES),
    sums=", ".join(f"{name} = {Tally._meta.db_table}.{name} + excluded.{name}" for name in _SUM_NAMES),
)


def count_ended() -> None:
    """Count what ended since the last round."""
    for _ in range(BATCHES):
        if _count_batch() < BATCH:
            return


def fold_old() -> int:
    """Keep days of what is older than `HOURLY_DAYS`, one sum of what is older than `DAILY_DAYS`; how many rows less.

    The sum is of the hour `BEFORE`. Nothing is ever counted less: who reads all of it has counters.
    """
    saved = 0
    hours = Tally.objects.exclude(hour=TruncDay("hour", tzinfo=UTC)).filter(hour__lt=from_now(-HOURLY_DAYS * DAY))
    while oldest := hours.order_by("hour").first():
        day = oldest.hour.replace(hour=0)
        saved += _fold(day, into=day)
    days = Tally.objects.filter(hour__gt=BEFORE, hour__lt=from_now(-DAILY_DAYS * DAY))
    while oldest := days.order_by("hour").first():
        saved += _fold(oldest.hour, into=BEFORE)
    return saved


def uncounted() -> QuerySet[Request]:
    """The requests that have ended and are in no tally yet."""
    return Request.objects.filter(finished_at__isnull=False, tallied_at__isnull=True).order_by()


def _count_batch() -> int:
    """Read and summed before the transaction: on SQLite nobody else writes while one lasts."""
    found = uncounted().values_list(*_READ)[:BATCH]
    batch = [columns.as_stored(Request, dict(zip(_READ, values, strict=True)), settings.DATABASE) for values in found]
    return len(batch) if batch and _store(batch, _rows(_sums(batch))) else 0


@transactional
def _store(batch: Sequence[Request], added: Sequence[Sequence[Any]]) -> bool:
    """Whether they are counted now; not if another process has counted, or is counting, any of them."""
    rows = uncounted().filter(pk__in=[row.pk for row in batch])
    locks_rows = databases.connection().features.has_select_for_update_skip_locked  # else nobody else writes now
    if locks_rows and len(rows.select_for_update(skip_locked=True).values_list("pk")) < len(batch):
        return False
    if rows.update(tallied_at=Now()) < len(batch):
        transaction.set_rollback(True, using=settings.DATABASE)
        return False
    _add(added)
    databases.on_commit(lambda: call_log.tell(batch))
    return True


@transactional
def _fold(day: datetime, *, into: datetime) -> int:
    hours = Tally.objects.filter(hour__gte=day, hour__lt=day + timedelta(days=1))
    old = list(hours.select_for_update().order_by("pk"))
    Tally.objects.filter(pk__in=[row.pk for row in old]).delete()
    sums: defaultdict[Key, Sum] = defaultdict(Sum)
    for row in old:
        added = sums[Key(into, row.tool, row.measure, row.status, row.cause, row.stage, row.bucket)]
        added.count += row.count
        added.seconds += row.seconds
    _add(_rows(sums))
    return len(old) - len(sums)


def _sums(batch: Sequence[Request]) -> Mapping[Key, Sum]:
    sums: defaultdict[Key, Sum] = defaultdict(Sum)
    for row in batch:
        for measure, seconds in _measured(row):
            added = sums[_key(row, measure, seconds)]
            added.count += 1
            added.seconds += seconds or 0.0
    return sums


def _rows(sums: Mapping[Key, Sum]) -> list[list[Any]]:
    """What is to be added, as `_add` takes it: in one order, so that two processes never wait for each other."""
    connection = databases.connection()
    rows = [(*astuple(key), sums[key].count, sums[key].seconds) for key in sorted(sums)]
    return [[columns.prepared(*each, connection) for each in zip(_FIELDS, row, strict=True)] for row in rows]


def _add(added: Sequence[Sequence[Any]]) -> None:
    with databases.connection().cursor() as cursor:
        cursor.executemany(_ADD, added)


def _measured(row: Request) -> Iterator[tuple[Measure, float | None]]:
    """What is measured of an ended request, in seconds; its run always, None where it did not run."""
    took = Lengths.of(row)
    yield Measure.RUN, took.run
    if took.wait is not None:
        yield Measure.WAIT, took.wait
    if took.stop is not None:
        yield Measure.STOP, took.stop


def _key(row: Request, measure: Measure, seconds: float | None) -> Key:
    assert row.finished_at is not None
    hour = row.finished_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    bucket = buckets.NONE if seconds is None else buckets.bucket_of(seconds)
    cause, stage = (row.cancel_cause, row.stage) if row.status == Status.CANCELLED else ("", 0)
    return Key(hour, row.tool, measure.value, row.status, cause, stage, bucket)
