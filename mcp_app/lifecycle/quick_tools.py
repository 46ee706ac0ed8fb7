"""Which tools are quick, as far as this process has seen their runs end: calls of those may share a message.

Known to nobody else, and forgotten with the process. Refuses to take a tool's word for it, or that of one run.
"""

from typing import Final

QUICK: Final = 0.02
"""Seconds that a run takes on the average, waiting for a processor included."""
UNKNOWN: Final = 0.1
"""What a tool that has not run yet is taken to need."""
WEIGHT: Final = 0.1
"""Of the newest run in the average: one that takes a second counts for some thirty quick ones."""

_averages: dict[str, float] = {}


def note(tool: str, ran_for: float | None) -> None:
    """A run of a tool has ended, after so many seconds; None: it never began, which says nothing."""
    if ran_for is not None:
        average = _averages.get(tool, UNKNOWN)
        _averages[tool] = average + WEIGHT * (ran_for - average)


def is_quick(tool: str) -> bool:
    return _averages.get(tool, UNKNOWN) <= QUICK


def forget() -> None:
    """All that was noted."""
    _averages.clear()
