"""Statistics as plots and as tables with the same numbers.

A script draws the plots if the site has Chart.js. The tables are always there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from django.apps import apps
from django.utils.formats import date_format

from mcp_app.admin.dashboard.numbers import count, share
from mcp_app.lifecycle.statistics.queries import ENDS, CallStatistics, Period, PeriodStatistics, Quantiles
from mcp_app.presentation.formatting import duration
from mcp_app.states import Cause, Stage, Status

CHARTS_APP: Final = "chartkick.django"
"""The app with Chart.js as a static file."""
CHARTS_SCRIPT: Final = "chartkick/Chart.bundle.js"
_STAGES: Final = {
    Stage.NONE: "none",
    Stage.COOPERATIVE: "cooperative",
    Stage.INTERRUPT: "interrupt",
    Stage.KILL: "kill",
}

Shape = Literal["bars", "lines", "across"]
Unit = Literal["calls", "share", "seconds"]
_WORDS: Final[dict[Unit, Callable[[float | None], str]]] = {"calls": count, "share": share, "seconds": duration}


@dataclass(frozen=True, slots=True)
class Series:
    """A number for each label, or `None`. `look` is the name of its colour and pattern."""

    name: str
    look: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot over time, or with a bar for each label (`across`), and the same as a table."""

    name: str
    title: str
    shape: Shape
    unit: Unit
    labels: Sequence[str]
    series: Sequence[Series]
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    said: str
    """A summary in a sentence, for users who cannot see the plot."""

    @property
    def drawn(self) -> dict[str, Any]:
        """Return the data for the script as JSON."""
        series = [{"name": each.name, "look": each.look, "values": each.values} for each in self.series]
        return {
            "shape": self.shape,
            "unit": self.unit,
            "labels": self.labels,
            "series": series,
            "said": f"{self.title}: {self.said}.",
        }


def installed() -> bool:
    """Whether the site has Chart.js."""
    return apps.is_installed(CHARTS_APP)


def plots(found: PeriodStatistics, period: Period) -> list[Plot]:
    """Return the plots of a period."""
    labels = [_label(begin, period) for begin, _ in found.intervals]
    over = _Over("Hour" if period.by_hour else "Day", labels, [each for _, each in found.intervals])
    whole = found.whole
    return [
        over.time(
            "calls", "Calls by how they ended", "bars", "calls",
            [Series(str(end.label), end.value, [each.ends[end] for each in over.figures]) for end in ENDS],
            ", ".join(f"{count(whole.ends[end])} {end.label}" for end in ENDS),
        ),
        over.time(
            "shares", "Failed and cancelled", "lines", "share",
            [
                Series("failed or lost", "failed", [each.failed_share for each in over.figures]),
                Series(str(Status.CANCELLED.label), "cancelled-share", [each.cancelled_share for each in over.figures]),
            ],
            f"{share(whole.failed_share)} failed or were lost, {share(whole.cancelled_share)} were cancelled",
        ),
        over.lengths("run", "How long they ran", [each.run for each in over.figures], whole.run),
        over.lengths("wait", "How long they waited for a worker", [each.wait for each in over.figures], whole.wait),
        _causes(found),
        over.lengths("stop", "From a cancellation to the stop", [each.stop for each in over.figures], whole.stop),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Over:
    """Makes plots over the hours or days of a period."""

    head: str
    labels: Sequence[str]
    figures: Sequence[CallStatistics]

    def time(self, name: str, title: str, shape: Shape, unit: Unit, series: Sequence[Series], said: str) -> Plot:
        columns = [[_WORDS[unit](value) for value in each.values] for each in series]
        rows = list(zip(self.labels, *columns, strict=True))
        heads = [self.head, *(each.name for each in series)]
        return Plot(name, title, shape, unit, self.labels, series, heads, rows[::-1], said)

    def lengths(self, name: str, title: str, each_time: Sequence[Quantiles], whole: Quantiles) -> Plot:
        series = [
            Series("half (p50)", "p50", [each.p50 for each in each_time]),
            Series("95 % (p95)", "p95", [each.p95 for each in each_time]),
        ]
        said = f"half took {duration(whole.p50)} at most, 95 % {duration(whole.p95)}"
        return self.time(name, title, "lines", "seconds", series, said)


def _causes(found: PeriodStatistics) -> Plot:
    causes = [cause for cause in Cause if any(each.cause == cause for each in found.stops)]
    counts = {(each.cause, each.stage): each.count for each in found.stops}
    stages = [stage for stage in Stage if any(each.stage == stage for each in found.stops)]
    rows = [
        (
            str(each.cause.label),
            str(each.stage.label),
            count(each.count),
            duration(each.latency.p50),
            duration(each.latency.p95),
        )
        for each in found.stops
    ]
    return Plot(
        "causes",
        "Cancelled, by cause and stage",
        "across",
        "calls",
        [str(cause.label) for cause in causes],
        [
            Series(str(stage.label), f"stage-{_STAGES[stage]}", [counts.get((cause, stage), 0) for cause in causes])
            for stage in stages
        ],
        ("Cause", "Stage", "Calls", "Stop, p50", "Stop, p95"),
        rows,
        ", ".join(f"{_sum(counts, cause)} {cause.label}" for cause in causes) or "none",
    )


def _sum(counts: dict[tuple[Cause, Stage], int], cause: Cause) -> str:
    return count(sum(number for (each, _), number in counts.items() if each == cause))


def _label(begin: datetime, period: Period) -> str:
    return date_format(begin, "H:i" if period.by_hour else "D j M")
