"""Reads the sizes of the tables and indexes of a site's databases from the engines.

PostgreSQL's TOAST tables count as rows.
"""

from collections import defaultdict
from typing import Any

from django.db import connections

_POSTGRESQL = """
SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
_SQLITE = """
SELECT part.tbl_name, sum(page.pgsize) FILTER (WHERE part.type = 'table'),
       sum(page.pgsize) FILTER (WHERE part.type = 'index')
FROM dbstat AS page JOIN sqlite_schema AS part ON part.name = page.name GROUP BY part.tbl_name
"""
_PARTS = {
    "mcp_app_request": "request",
    "mcp_app_requestevent": "events",
    "mcp_app_cancellation": "audit",
    "mcp_app_auditday": "audit",
    "mcp_app_tally": "tallies",
    "mcp_app_daytally": "tallies",
    "django_celery_results_taskresult": "Celery's result",
}


def of_site() -> dict[str, dict[str, float]]:
    """Return the bytes of rows and of indexes in all databases, by the names in `_PARTS`."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"rows": 0.0, "indexes": 0.0})
    for alias in connections:
        wrapper = connections[alias]
        for table, rows, indexes in _asked(wrapper, _SQLITE if wrapper.vendor == "sqlite" else _POSTGRESQL):
            if (part := _PARTS.get(table)) is not None:
                found[part]["rows"] += rows or 0
                found[part]["indexes"] += indexes or 0
    return {part: found[part] for part in dict.fromkeys(_PARTS.values())}


def total(sizes: dict[str, dict[str, float]]) -> float:
    return sum(size["rows"] + size["indexes"] for size in sizes.values())


def vacuum(*, whole: bool) -> None:
    """Free space as PostgreSQL's autovacuum would, or with `whole` rewrite all tables without gaps."""
    for alias in connections:
        wrapper = connections[alias]
        if wrapper.vendor == "sqlite":
            if whole:
                _asked(wrapper, "VACUUM")
        else:
            _asked(wrapper, "VACUUM FULL" if whole else "VACUUM ANALYZE")


def _asked(wrapper: Any, statement: str) -> list[tuple[Any, ...]]:
    with wrapper.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []
