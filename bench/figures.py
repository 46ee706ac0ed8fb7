"""What a measure found, and how it is read: percentiles, goals, the table. Pure values."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a measure. `at_most` is its goal, in the same unit; None where there is none."""

    label: str
    value: float
    unit: str
    at_most: float | None = None

    def __str__(self) -> str:
        return f"{self.label} {format_number(self.value)} {self.unit}".strip()

    @property
    def goal(self) -> str:
        """The goal and whether it is met; empty where there is none."""
        if self.at_most is None:
            return ""
        verdict = "met" if self.value <= self.at_most else "MISSED"
        return " ".join(f"{self.label} ≤ {self.at_most:g} {self.unit}".split()) + f": {verdict}"


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure: how many samples, what they say; or why there are none."""

    name: str
    samples: int
    figures: tuple[Figure, ...]
    failure: str = ""
    other_cores: float = 0.0
    """Processor time that others used meanwhile, in cores: how far the numbers may be trusted."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that `percent` of all values do not exceed. Raises ValueError."""
    if not values:
        raise ValueError("no values")
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(1, int(rank)) - 1]


def milliseconds(seconds: Sequence[float], *percents: float, goals: dict[float, float] | None = None) -> list[Figure]:
    """Percentiles of durations given in seconds, as figures in milliseconds; `goals` by percent, in milliseconds."""
    goals = goals or {}
    return [
        Figure(
            "max" if percent == 100 else f"p{percent:g}", percentile(seconds, percent) * 1000, "ms", goals.get(percent)
        )
        for percent in percents
    ]


def format_number(value: float) -> str:
    """Three significant digits, and every digit before the point; whole numbers as they are."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


HEADINGS = ("measure", "n", "figures", "goal", "others' cores")
FAILURE_CHARS = 80
"""Of a failure's last line, in the table; all of it is in the JSON."""


def table(measures: Iterable[Measured]) -> str:
    """The measures as lines of a text table."""
    return aligned([HEADINGS, *(_row(measured) for measured in measures)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the first of them headings, as lines of a text table."""
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
