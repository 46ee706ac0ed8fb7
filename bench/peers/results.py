"""What came of the rounds: for each contender, measure and figure a value of each round. Pure values."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OTHERS = "others"
"""The figure that is none of the contender's: cores that others used meanwhile."""


@dataclass(frozen=True, slots=True)
class Of:
    """Names one figure."""

    contender: str
    measure: str
    figure: str


@dataclass(frozen=True, slots=True)
class Failure:
    contender: str
    measure: str
    """Empty: none of them was taken."""
    round: int
    reason: str


@dataclass(slots=True)
class Results:
    values: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    commands: dict[str, list[str]] = field(default_factory=dict)

    def add(self, contender: str, measure: str, figures: Mapping[str, float], other_cores: float = 0.0) -> None:
        """One round's."""
        found = self.values.setdefault(contender, {}).setdefault(measure, {})
        for name, value in {**figures, OTHERS: other_cores}.items():
            found.setdefault(name, []).append(value)

    def fail(self, contender: str, measure: str, number: int, reason: str) -> None:
        self.failures.append(Failure(contender, measure, number, reason))

    def median(self, of: Of) -> float | None:
        """None where it was never measured."""
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
    """Half of what lies between the smallest and the largest, as a part of the median; 0 for a median of 0."""
    median = statistics.median(values)
    return (max(values) - min(values)) / 2 / abs(median) if median else 0.0
