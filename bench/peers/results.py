"""The values of all rounds, by contender, measure and figure. Does no I/O."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OTHERS = "others"
"""The figure for the cores that other processes used during the measure."""


@dataclass(frozen=True, slots=True)
class Of:
    """The name of one figure."""

    contender: str
    measure: str
    figure: str


@dataclass(frozen=True, slots=True)
class Failure:
    contender: str
    measure: str
    """The measure that failed; empty if the whole turn failed."""
    round: int
    reason: str


@dataclass(slots=True)
class Results:
    values: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    commands: dict[str, list[str]] = field(default_factory=dict)

    def add(self, contender: str, measure: str, figures: Mapping[str, float], other_cores: float = 0.0) -> None:
        """Add the figures of one round."""
        found = self.values.setdefault(contender, {}).setdefault(measure, {})
        for name, value in {**figures, OTHERS: other_cores}.items():
            found.setdefault(name, []).append(value)

    def fail(self, contender: str, measure: str, number: int, reason: str) -> None:
        self.failures.append(Failure(contender, measure, number, reason))

    def median(self, of: Of) -> float | None:
        """Return the median of a figure, or `None` if it was not measured."""
        values = self.values.get(of.contender, {}).get(of.measure, {}).get(of.figure)
        return statistics.median(values) if values else None

    def as_json(self) -> dict[str, Any]:
        return {
            contender: {
                measure: {figure: summary(values) for figure, values in figures.items()}
                for measure, figures in measures.items()
            }
            for contender, measures in self.values.items()
        }


def summary(values: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "values": values}


def spread(values: list[float]) -> float:
    """Return half the range of the values as a fraction of the median, or 0 if the median is 0."""
    median = statistics.median(values)
    return (max(values) - min(values)) / 2 / abs(median) if median else 0.0
