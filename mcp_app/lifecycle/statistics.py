"""What the tallies say: how calls ended, how long they ran, waited and took to stop, over time, by cause and by tool.

Reading only, and only tallies, grouped in SQL: a period costs the same few statements whatever was called in it.
Refuses to know how it is shown. Times are of the current time zone; a tally is of an hour, which belongs to the day in
which it begins. What ended last is not in it until it is counted (`live_numbers.lag`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Case, IntegerField, QuerySet, Sum, Value, When
from django.db.models.expressions import Combinable

from mcp_app.lifecycle import buckets
from mcp_app.lifecycle.periods import Period
from mcp_app.models import Tally
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


_COLUMNS: Final = ("measure", "status", "bucket", "total")
_Row = tuple[str, str, int, int]
"""Of `_COLUMNS`."""


def read(period: Period, tool: str | None = None) -> Statistics:
    """One statement. Raises django.db.Error."""
    begins = period.begins()
    by_interval: defaultdict[int, list[_Row]] = defaultdict(list)
    by_stop: defaultdict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    grouped = _grouped(_within(begins, tool), "interval", "stage", "cause")
    for interval, stage, cause, *row in grouped.values_list("interval", "stage", "cause", *_COLUMNS):
        measure, _, bucket, total = row
        by_interval[interval].append((*row,))
        if measure == Measure.STOP:
            by_stop[cause, stage][bucket] += total
    return Statistics(
        [(begin, _figures(by_interval[number])) for number, begin in enumerate(begins)],
        _figures(row for rows in by_interval.values() for row in rows),
        [
            Stops(cause, stage, counted.total(), _quantiles(counted))
            for cause in Cause
            for stage in Stage
            if (counted := by_stop.get((cause, stage)))
        ],
    )


def by_tool(period: Period) -> list[tuple[str, Figures]]:
    """Every tool that was called in the period, the most used first; without waits and stops. One statement."""
    rows: defaultdict[str, list[_Row]] = defaultdict(list)
    ran = _within(period.begins()[:1]).filter(measure=Measure.RUN)
    for tool, *row in _grouped(ran, "tool").values_list("tool", *_COLUMNS):
        rows[tool].append((*row,))
    found = [(tool, _figures(each)) for tool, each in rows.items()]
    return sorted(found, key=lambda each: (-each[1].calls, each[0]))


def of_tool(tool: str) -> dict[Period, Figures]:
    """One tool over each of the periods. One statement."""
    first = {period: period.begins()[0] for period in Period}
    begins = sorted({*first.values()})
    rows: defaultdict[int, list[_Row]] = defaultdict(list)
    for interval, *row in _grouped(_within(begins, tool), "interval").values_list("interval", *_COLUMNS):
        rows[interval].append((*row,))
    return {
        period: _figures(row for number, each in rows.items() if begins[number] >= begin for row in each)
        for period, begin in first.items()
    }


def _within(begins: Sequence[datetime], tool: str | None = None) -> QuerySet[Tally]:
    """What ended since the first of `begins`, with `interval`: the number of the one after which it did."""
    rows = Tally.objects.filter(hour__gte=begins[0]).order_by().annotate(interval=_number(begins, 0, len(begins)))
    return rows if tool is None else rows.filter(tool=tool)


def _number(begins: Sequence[datetime], first: int, end: int) -> Combinable:
    """Which of the beginnings, from `first` and before `end`, an hour comes after: found by halving.

    Not by the database's truncation: SQLite's is a function in Python, called for each row.
    """
    if end - first == 1:
        return Value(first)
    middle = (first + end) // 2
    later = When(hour__gte=begins[middle], then=_number(begins, middle, end))
    return Case(later, default=_number(begins, first, middle), output_field=IntegerField())


def _grouped(rows: QuerySet[Tally], *by: str) -> QuerySet[Tally, Any]:
    # SQLite sorts them in this order: numbers that differ often are compared first.
    kinds = rows.values("bucket", *by, "measure", "status")
    grouped: QuerySet[Tally, Any] = kinds.annotate(total=Sum("count"))
    return grouped


def _figures(rows: Iterable[_Row]) -> Figures:
    ends: Counter[str] = Counter()
    buckets_of: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for measure, status, bucket, total in rows:
        buckets_of[measure][bucket] += total
        if measure == Measure.RUN:
            ends[status] += total
    run, wait, stop = (_quantiles(buckets_of[measure]) for measure in (Measure.RUN, Measure.WAIT, Measure.STOP))
    return Figures({end: ends[end] for end in ENDS}, run, wait, stop)


def _quantiles(counted: Mapping[int, int]) -> Quantiles:
    return Quantiles(buckets.quantile(counted, 0.5), buckets.quantile(counted, 0.95))
