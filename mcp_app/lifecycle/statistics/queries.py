"""Read the tallies: how calls ended, and how long they ran, waited and took to stop.

The tallies are grouped in SQL, so that a period costs the same few statements whatever was called
in it. Days that are over are read as days (`tallies.store_ended_days`). Times are in the current time
zone. A tally is of an hour, which belongs to the day in which it begins. A call that has just ended
is missing until it is counted (`live_numbers.lag`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from typing import Any, Final

from django.db.models import Case, IntegerField, Max, Q, QuerySet, Sum, Value, When
from django.db.models.expressions import Combinable
from django.utils import timezone

from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.statistics.durations import Histogram
from mcp_app.models import DayTally, Tally
from mcp_app.states import TERMINAL, Cause, Measure, Stage, Status

ENDS: Final = tuple(status for status in Status if status in TERMINAL)
FAILURES: Final = (Status.FAILED, Status.LOST)
"""The terminal statuses that count as failures."""


class Period(Enum):
    """A period up to now: a number of hours, or a number of days including today."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def by_hour(self) -> bool:
        return self is Period.DAY

    def begins(self) -> list[datetime]:
        """Return the beginning of each hour or day, oldest first, in the current time zone."""
        number = int(self.value[:-1])
        zone, now = timezone.get_current_timezone(), clock.now()
        if self.by_hour:
            hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            return [(hour - timedelta(hours=back)).astimezone(zone) for back in reversed(range(number))]
        today = now.astimezone(zone).date()
        days = [today - timedelta(days=back) for back in reversed(range(number))]
        return [timezone.make_aware(datetime.combine(day, time())) for day in days]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The seconds that 50 % and 95 % of the calls did not exceed, or `None` without calls."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class CallStatistics:
    """Statistics of the calls that ended within some time.

    `ends` counts them by status. `run`, `wait` and `stop` are the durations of their runs, of their
    waits for a worker, and from the request to cancel until they stopped.
    """

    ends: Mapping[Status, int]
    run: Quantiles
    wait: Quantiles
    stop: Quantiles

    @property
    def calls(self) -> int:
        return sum(self.ends.values())

    @property
    def failed_share(self) -> float | None:
        """Between 0 and 1; lost calls count as failed."""
        return self._share(*FAILURES)

    @property
    def cancelled_share(self) -> float | None:
        """Between 0 and 1."""
        return self._share(Status.CANCELLED)

    def _share(self, *ends: Status) -> float | None:
        return sum(self.ends[end] for end in ends) / self.calls if self.calls else None


@dataclass(frozen=True, slots=True)
class StopStatistics:
    """Cancelled calls with the same cause and stage, and how long they took to stop."""

    cause: Cause
    stage: Stage
    count: int
    latency: Quantiles


@dataclass(frozen=True, slots=True)
class PeriodStatistics:
    """Statistics of a period: by hour or day, oldest first; as a whole; of its cancellations."""

    intervals: Sequence[tuple[datetime, CallStatistics]]
    whole: CallStatistics
    stops: Sequence[StopStatistics]


_COLUMNS: Final = ("measure", "status", "bucket", "total", "length")
_Row = tuple[str, str, int, int, float]
"""The values of `_COLUMNS`."""


def read(period: Period, tool: str | None = None) -> PeriodStatistics:
    """Return the statistics of all tools, or of one. One statement for `Period.DAY`, else three.

    Raises django.db.Error.
    """
    begins = period.begins()
    by_interval: defaultdict[int, list[_Row]] = defaultdict(list)
    by_stop: defaultdict[tuple[str, int], Histogram] = defaultdict(Histogram)
    found = _counted(period, "interval", "stage", "cause", of_hours=_of(tool), of_days=Q(tool=tool or ""))
    for interval, stage, cause, *row in found:
        measure, _, *counted = row
        by_interval[interval].append((*row,))
        if measure == Measure.STOP:
            by_stop[cause, stage].add(*counted)
    return PeriodStatistics(
        [(begin, _summarize(by_interval[number])) for number, begin in enumerate(begins)],
        _summarize(row for rows in by_interval.values() for row in rows),
        [
            StopStatistics(cause, stage, held.count, _quantiles(held))
            for cause in Cause
            for stage in Stage
            if (held := by_stop.get((cause, stage))) is not None
        ],
    )


def read_by_tool(period: Period) -> list[tuple[str, CallStatistics]]:
    """Return the tools that were called in the period, most used first. Three statements.

    The statistics are without waits and stops.
    """
    rows: defaultdict[str, list[_Row]] = defaultdict(list)
    ran = Q(measure=Measure.RUN)
    for tool, *row in _counted(period, "tool", of_hours=ran, of_days=ran & Q(tool__gt="")):
        rows[tool].append((*row,))
    found = [(tool, _summarize(each)) for tool, each in rows.items()]
    return sorted(found, key=lambda each: (-each[1].calls, each[0]))


def read_for_tool(tool: str) -> dict[Period, CallStatistics]:
    """Return the statistics of one tool over each of the periods. Four statements."""
    hours = [(*row,) for row in _counted(Period.DAY, of_hours=_of(tool), of_days=_of(tool))]
    days: defaultdict[int, list[_Row]] = defaultdict(list)
    for interval, *row in _counted(Period.MONTH, "interval", of_hours=_of(tool), of_days=_of(tool)):
        days[interval].append((*row,))
    month, week = Period.MONTH.begins(), Period.WEEK.begins()
    return {
        Period.DAY: _summarize(hours),
        Period.WEEK: _summarize(row for number, rows in days.items() if month[number] >= week[0] for row in rows),
        Period.MONTH: _summarize(row for rows in days.values() for row in rows),
    }


def _of(tool: str | None) -> Q:
    return Q() if tool is None else Q(tool=tool)


def _counted(period: Period, *by: str, of_hours: Q, of_days: Q) -> Iterator[Any]:
    """Sum the tallies of a period by `by` and `_COLUMNS`.

    Reads days where they were added up, and hours elsewhere. `interval` is the index in
    `period.begins()`.
    """
    begins = period.begins()
    since = begins[0]
    if not period.by_hour:
        zone = timezone.get_current_timezone_name()
        # All earlier days that had calls were added up before the newest one was.
        added = DayTally.objects.filter(zone=zone, begins_at__lt=begins[-1])
        newest: datetime | None = added.aggregate(newest=Max("begins_at"))["newest"]
        if newest is not None:
            since = next(begin for begin in begins if begin > newest)
        days = DayTally.objects.filter(of_days, zone=zone, begins_at__gte=begins[0], begins_at__lt=since)
        yield from _grouped(days, "begins_at", begins, by)
    yield from _grouped(Tally.objects.filter(of_hours, hour__gte=since), "hour", begins, by)


def _grouped(rows: QuerySet[Any], column: str, begins: Sequence[datetime], by: Sequence[str]) -> QuerySet[Any, Any]:
    if "interval" in by:
        rows = rows.annotate(interval=_number(column, begins, 0, len(begins)))
    # SQLite sorts them in this order: numbers that differ often are compared first.
    kinds = rows.order_by().values("bucket", *by, "measure", "status")
    grouped: QuerySet[Any, Any] = kinds.annotate(total=Sum("count"), length=Sum("seconds")).values_list(*by, *_COLUMNS)
    return grouped


def _number(column: str, begins: Sequence[datetime], first: int, end: int) -> Combinable:
    """Return the SQL for the index of the last of `begins[first:end]` that is not after `column`.

    A binary search, because SQLite's truncation of dates is a Python function, which is called for
    each row.
    """
    if end - first == 1:
        return Value(first)
    middle = (first + end) // 2
    later = When(**{f"{column}__gte": begins[middle]}, then=_number(column, begins, middle, end))
    return Case(later, default=_number(column, begins, first, middle), output_field=IntegerField())


def _summarize(rows: Iterable[_Row]) -> CallStatistics:
    ends: Counter[str] = Counter()
    held: defaultdict[str, Histogram] = defaultdict(Histogram)
    for measure, status, bucket, total, length in rows:
        held[measure].add(bucket, total, length)
        if measure == Measure.RUN:
            ends[status] += total
    run, wait, stop = (_quantiles(held[measure]) for measure in (Measure.RUN, Measure.WAIT, Measure.STOP))
    return CallStatistics({end: ends[end] for end in ENDS}, run, wait, stop)


def _quantiles(held: Histogram) -> Quantiles:
    return Quantiles(held.quantile(0.5), held.quantile(0.95))
