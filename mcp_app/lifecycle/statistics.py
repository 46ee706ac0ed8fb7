"""What the tallies say: how calls ended, how long they ran, waited and took to stop, over time, by cause and by tool.

Reading only, and only tallies, grouped in SQL: a period costs the same few statements whatever was called in it, and
days that are over are read as days (`day_tallies`).
Refuses to know how it is shown. Times are of the current time zone; a tally is of an hour, which belongs to the day in
which it begins. What ended last is not in it until it is counted (`live_numbers.lag`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Case, IntegerField, Q, QuerySet, Sum, Value, When
from django.db.models.expressions import Combinable
from django.utils import timezone

from mcp_app.lifecycle import day_tallies
from mcp_app.lifecycle.buckets import Histogram
from mcp_app.lifecycle.periods import Period
from mcp_app.models import DayTally, Tally
from mcp_app.states import TERMINAL, Cause, Measure, Stage, Status

ENDS: Final = tuple(status for status in Status if status in TERMINAL)
FAILURES: Final = (Status.FAILED, Status.LOST)
"""What ended as nobody wanted."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The length, in seconds, that half and 95 % of what was measured did not exceed; None where nothing was."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Calls that ended within some time: how many in each way; how long they ran, waited for a worker, and took to stop
    once somebody asked for it."""

    ends: Mapping[Status, int]
    run: Quantiles
    wait: Quantiles
    stop: Quantiles

    @property
    def calls(self) -> int:
        return sum(self.ends.values())

    @property
    def failed_share(self) -> float | None:
        """Of 1; lost calls are among them."""
        return self._share(*FAILURES)

    @property
    def cancelled_share(self) -> float | None:
        """Of 1."""
        return self._share(Status.CANCELLED)

    def _share(self, *ends: Status) -> float | None:
        return sum(self.ends[end] for end in ends) / self.calls if self.calls else None


@dataclass(frozen=True, slots=True)
class Stops:
    """Cancelled calls of one cause that needed the same stage, and how long they took to stop."""

    cause: Cause
    stage: Stage
    count: int
    latency: Quantiles


@dataclass(frozen=True, slots=True)
class Statistics:
    """A period: each hour or day of it by its beginning, oldest first; all of it; its cancellations."""

    intervals: Sequence[tuple[datetime, Figures]]
    whole: Figures
    stops: Sequence[Stops]


_COLUMNS: Final = ("measure", "status", "bucket", "total", "length")
_Row = tuple[str, str, int, int, float]
"""Of `_COLUMNS`."""


def read(period: Period, tool: str | None = None) -> Statistics:
    """Three statements, of a day one. Raises django.db.Error."""
    begins = period.begins()
    by_interval: defaultdict[int, list[_Row]] = defaultdict(list)
    by_stop: defaultdict[tuple[str, int], Histogram] = defaultdict(Histogram)
    found = _counted(period, "interval", "stage", "cause", of_hours=_of(tool), of_days=Q(tool=tool or ""))
    for interval, stage, cause, *row in found:
        measure, _, *counted = row
        by_interval[interval].append((*row,))
        if measure == Measure.STOP:
            by_stop[cause, stage].add(*counted)
    return Statistics(
        [(begin, _figures(by_interval[number])) for number, begin in enumerate(begins)],
        _figures(row for rows in by_interval.values() for row in rows),
        [
            Stops(cause, stage, held.count, _quantiles(held))
            for cause in Cause
            for stage in Stage
            if (held := by_stop.get((cause, stage))) is not None
        ],
    )


def by_tool(period: Period) -> list[tuple[str, Figures]]:
    """Every tool that was called in the period, the most used first; without waits and stops. Three statements."""
    rows: defaultdict[str, list[_Row]] = defaultdict(list)
    ran = Q(measure=Measure.RUN)
    for tool, *row in _counted(period, "tool", of_hours=ran, of_days=ran & Q(tool__gt="")):
        rows[tool].append((*row,))
    found = [(tool, _figures(each)) for tool, each in rows.items()]
    return sorted(found, key=lambda each: (-each[1].calls, each[0]))


def of_tool(tool: str) -> dict[Period, Figures]:
    """One tool over each of the periods. Four statements."""
    hours = [(*row,) for row in _counted(Period.DAY, of_hours=_of(tool), of_days=_of(tool))]
    days: defaultdict[int, list[_Row]] = defaultdict(list)
    for interval, *row in _counted(Period.MONTH, "interval", of_hours=_of(tool), of_days=_of(tool)):
        days[interval].append((*row,))
    month, week = Period.MONTH.begins(), Period.WEEK.begins()
    return {
        Period.DAY: _figures(hours),
        Period.WEEK: _figures(row for number, rows in days.items() if month[number] >= week[0] for row in rows),
        Period.MONTH: _figures(row for rows in days.values() for row in rows),
    }


def _of(tool: str | None) -> Q:
    return Q() if tool is None else Q(tool=tool)


def _counted(period: Period, *by: str, of_hours: Q, of_days: Q) -> Iterator[Any]:
    """What ended in a period, summed by `by` and `_COLUMNS`: by the days that were added up, the rest by its hours.

    `interval` is the number of the one after whose beginning it ended.
    """
    begins = period.begins()
    since = begins[0]
    if not period.by_hour:
        zone = timezone.get_current_timezone_name()
        if (newest := day_tallies.newest(zone, begins[-1])) is not None:
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
    """Which of the beginnings, from `first` and before `end`, a time comes after: found by halving.

    Not by the database's truncation: SQLite's is a function in Python, called for each row.
    """
    if end - first == 1:
        return Value(first)
    middle = (first + end) // 2
    later = When(**{f"{column}__gte": begins[middle]}, then=_number(column, begins, middle, end))
    return Case(later, default=_number(column, begins, first, middle), output_field=IntegerField())


def _figures(rows: Iterable[_Row]) -> Figures:
    ends: Counter[str] = Counter()
    held: defaultdict[str, Histogram] = defaultdict(Histogram)
    for measure, status, bucket, total, length in rows:
        held[measure].add(bucket, total, length)
        if measure == Measure.RUN:
            ends[status] += total
    run, wait, stop = (_quantiles(held[measure]) for measure in (Measure.RUN, Measure.WAIT, Measure.STOP))
    return Figures({end: ends[end] for end in ENDS}, run, wait, stop)


def _quantiles(held: Histogram) -> Quantiles:
    return Quantiles(held.quantile(0.5), held.quantile(0.95))
