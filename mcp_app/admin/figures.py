"""Figures of ended calls in words: counts, shares and lengths, as tables show them."""

from dataclasses import dataclass

from django.utils.formats import number_format

from mcp_app.lifecycle.statistics import Figures
from mcp_app.telling.formatting import NOTHING, duration


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    calls: str
    failed: str
    cancelled: str
    p50: str
    p95: str


def row(figures: Figures) -> Row:
    return Row(
        count(figures.calls),
        share(figures.failed_share),
        share(figures.cancelled_share),
        duration(figures.run.p50),
        duration(figures.run.p95),
    )


def count(number: float | None) -> str:
    return NOTHING if number is None else number_format(int(number), force_grouping=True)


def share(of_one: float | None) -> str:
    """Of 1, as a percentage; never "0.0 %" of what there was."""
    if of_one is None:
        return NOTHING
    return "< 0.1 %" if 0 < of_one < 0.001 else f"{of_one * 100:.1f} %"
