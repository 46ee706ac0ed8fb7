"""How long runs of a tool take, as far as this process has seen them end: calls of quick ones may share a message.

Known to nobody else, and forgotten with the process. Refuses to take a tool's word for it, or that of one run.
"""

from typing import Final

UNKNOWN: Final = 0.1
"""Seconds that a tool is taken to need that has not run yet."""
WEIGHT: Final = 0.1
"""Of the newest run in the average: one that takes a second counts for some thirty quick ones."""

_averages: dict[str, float] = {}


def note(tool: str, seconds: float | None) -> None:
    """A run of a tool has ended, after so many seconds; None: it never began, which says nothing."""
    if seconds is not None:
        before = average(tool)
        _averages[tool] = before + WEIGHT * (seconds - before)


def average(tool: str) -> float:
    """Seconds that its runs have taken of late, from claim to end: waiting for a processor included."""
    return _averages.get(tool, UNKNOWN)


def forget() -> None:
    """All that was noted."""
    _averages.clear()
