"""Format the numbers of ended calls for tables: counts, shares and durations."""

from dataclasses import dataclass

from django.utils.formats import number_format

from mcp_app.lifecycle.statistics.queries import CallStatistics
from mcp_app.presentation.formatting import NOTHING, duration


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    calls: str
    failed: str
    cancelled: str
    p50: str
    p95: str


def row(figures: CallStatistics) -> TableRow:
    return TableRow(
        count(figures.calls),
        share(figures.failed_share),
        share(figures.cancelled_share),
        duration(figures.run.p50),
        duration(figures.run.p95),
    )


def count(number: float | None) -> str:
    return NOTHING if number is None else number_format(int(number), force_grouping=True)


def share(of_one: float | None) -> str:
    """Format a fraction of 1 as a percentage. A fraction above zero is never "0.0 %"."""
    if of_one is None:
        return NOTHING
    return "< 0.1 %" if 0 < of_one < 0.001 else f"{of_one * 100:.1f} %"
