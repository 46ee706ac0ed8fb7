"""The values of a measure: percentiles, goals and the table of results. Does no I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a measure. `at_most` is its goal in the same unit, or `None`."""

    label: str
    value: float
    unit: str
    at_most: float | None = None

    def __str__(self) -> str:
        return f"{self.label} {format_number(self.value)} {self.unit}".strip()

    @property
    def goal(self) -> str:
        """The goal and whether it is met; empty if there is no goal."""
        if self.at_most is None:
            return ""
        verdict = "met" if self.value <= self.at_most else "MISSED"
        return " ".join(f"{self.label} ≤ {self.at_most:g} {self.unit}".split()) + f": {verdict}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The number of samples and the figures of one measure, or the reason why it failed."""

    name: str
    samples: int
    figures: tuple[Figure, ...]
    failure: str = ""
    other_cores: float = 0.0
    """Processor time of other processes during the measure, in cores. A high value makes the numbers less reliable."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: the smallest value that `percent` of all values do not exceed.

    Raises `ValueError` if there are no values.
    """
    if not values:
        raise ValueError("no values")
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(1, int(rank)) - 1]


def milliseconds(seconds: Sequence[float], *percents: float, goals: dict[float, float] | None = None) -> list[Figure]:
    """Return percentiles of durations in seconds as figures in milliseconds. `goals` has milliseconds by percent."""
    goals = goals or {}
    return [
        Figure(
            "max" if percent == 100 else f"p{percent:g}", percentile(seconds, percent) * 1000, "ms", goals.get(percent)
        )
        for percent in percents
    ]


def format_number(value: float) -> str:
    """Format a number with two decimals, with one from 10 on, and with none from 100 on or if it is whole."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


HEADINGS = ("measure", "n", "figures", "goal", "others' cores")
FAILURE_CHARS = 80
"""The length to which the table cuts the last line of a failure. The JSON contains the whole text."""


def table(measures: Iterable[Measured]) -> str:
    """Return the measures as a text table."""
    return aligned([HEADINGS, *(_row(measured) for measured in measures)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a text table. The first row contains the headings."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = tuple("-" * width for width in widths)
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in [rows[0], rule, *rows[1:]]
    )
    return "\n".join(line.rstrip() for line in lines)


def _row(measured: Measured) -> tuple[str, ...]:
    if measured.failure:
        return (measured.name, "", f"FAILED: {measured.failure.splitlines()[-1][:FAILURE_CHARS]}", "", "")
    figures = " · ".join(map(str, measured.figures))
    goals = " · ".join(figure.goal for figure in measured.figures if figure.goal)
    return (measured.name, str(measured.samples), figures, goals, f"{measured.other_cores:.2f}")
