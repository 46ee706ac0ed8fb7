"""The migrations of the site: whether its databases have seen them all."""

from collections.abc import Iterator
from typing import Final

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from mcp_app.diagnosis import database
from mcp_app.diagnosis.examination import Seen
from mcp_app.diagnosis.findings import Finding, failed, ok

NAME: Final = "migrations"


def pending(alias: str) -> int:
    """How many migrations the database behind `alias` has not seen. Raises django.db.Error."""
    executor = MigrationExecutor(connections[alias])
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def look(seen: Seen) -> Iterator[Finding]:
    yield from all_applied()


def all_applied() -> list[Finding]:
    """A finding for each database. Raises django.db.Error."""
    return [_of(alias, pending(alias)) for alias in database.aliases()]


def _of(alias: str, count: int) -> Finding:
    if not count:
        return ok(NAME, f"{alias}: all are applied.")
    are = "migration is" if count == 1 else "migrations are"
    return failed(NAME, f"{alias}: {count} {are} not applied.", f"Run `python manage.py migrate --database {alias}`.")
