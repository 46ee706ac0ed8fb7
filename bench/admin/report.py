"""Formats the results: a table of pages, and the slowest statement of each page. Does no I/O."""

from collections.abc import Sequence
from typing import Any, Final

from bench.admin.visiting import Visit
from bench.figures import format_number

GOAL_MS: Final = 300.0
SQL_CHARS: Final = 400
HEADINGS: Final = ("page", "median ms", "max ms", "CPU ms", "queries", "with few", "steps", "")


def faults(visits: Sequence[Visit], few: dict[str, int]) -> list[str]:
    """Return the faults that fail a run: pages with errors, and pages with more queries for many rows than for few."""
    return [fault for visit in visits if (fault := _fault(visit, few))]


def missed(visits: Sequence[Visit]) -> list[Visit]:
    """Return the pages that take longer than `GOAL_MS`."""
    return [visit for visit in visits if visit.milliseconds > GOAL_MS]


def table(visits: Sequence[Visit], few: dict[str, int]) -> str:
    rows = [HEADINGS, *(_row(visit, few) for visit in visits)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def slowest(visits: Sequence[Visit]) -> str:
    """Return the slowest statement of each page and its plan."""
    return "\n\n".join(_slowest(visit) for visit in visits if visit.slowest is not None)


def as_json(visit: Visit, few: dict[str, int]) -> dict[str, Any]:
    query = visit.slowest
    return {
        "page": visit.page.name,
        "address": visit.page.address,
        "milliseconds": [each * 1000 for each in visit.seconds],
        "cpu_milliseconds": [each * 1000 for each in visit.cpu_seconds],
        "queries": len(visit.queries),
        "queries_with_few_rows": few.get(visit.page.name),
        "steps": visit.steps,
        "slowest": None if query is None else {"milliseconds": query.seconds * 1000, "sql": query.sql},
        "plan": visit.plan,
        "failure": visit.failure,
    }


def _fault(visit: Visit, few: dict[str, int]) -> str:
    if visit.failure:
        return f"{visit.page.name}: {visit.failure}"
    if len(visit.queries) > few.get(visit.page.name, len(visit.queries)):
        return f"{visit.page.name}: {len(visit.queries)} queries, {few[visit.page.name]} with few rows"
    return ""


def _row(visit: Visit, few: dict[str, int]) -> tuple[str, ...]:
    if visit.failure:
        return (visit.page.name, "", "", "", "", "", "", f"FAILED: {visit.failure}")
    return (
        visit.page.name,
        format_number(visit.milliseconds),
        format_number(max(visit.seconds) * 1000),
        format_number(min(visit.cpu_seconds) * 1000),
        str(len(visit.queries)),
        str(few.get(visit.page.name, "")),
        str(visit.steps),
        "MISSED" if visit.milliseconds > GOAL_MS else "",
    )


def _slowest(visit: Visit) -> str:
    query = visit.slowest
    assert query is not None
    plan = "\n".join(f"    {line}" for line in visit.plan.splitlines())
    return f"{visit.page.name}: {format_number(query.seconds * 1000)} ms\n  {query.sql[:SQL_CHARS]}\n{plan}"
