"""Check that all migrations are applied."""

from collections.abc import Iterator
from typing import Final

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from mcp_app.diagnosis import database
from mcp_app.diagnosis.examination import Finding, SharedFacts, failed, ok

NAME: Final = "migrations"


def pending(alias: str) -> int:
    """Return the number of migrations that are not applied. Raises `django.db.Error`."""
    executor = MigrationExecutor(connections[alias])
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def check(shared: SharedFacts) -> Iterator[Finding]:
    yield from all_applied()


def all_applied() -> list[Finding]:
    """Check each database, and return a finding for each. Raises `django.db.Error`."""
    findings = []
    for alias in database.aliases():
        if not (count := pending(alias)):
            findings.append(ok(NAME, f"{alias}: all are applied."))
            continue
        are = "migration is" if count == 1 else "migrations are"
        remedy = f"Run `python manage.py migrate --database {alias}`."
        findings.append(failed(NAME, f"{alias}: {count} {are} not applied.", remedy))
    return findings
