"""Makes the database fail: it is away at first, another connection locks it (SQLite), or it refuses an audit row."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from django.db import OperationalError

from mcp_app import databases
from mcp_app.models import Cancellation, Request

REFUSAL = "the audit is full"


@contextmanager
def write_lock() -> Iterator[None]:
    """Hold SQLite's write lock, so that every other connection that writes must wait."""
    name = databases.connection().settings_dict["NAME"]
    with closing(sqlite3.connect(name, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def locked() -> Iterator[None]:
    """Hold SQLite's write lock in another connection, and let this thread's connection fail without waiting."""
    other = sqlite3.connect(databases.connection().settings_dict["NAME"], isolation_level=None)
    with databases.connection().cursor() as cursor, closing(other):
        cursor.execute("PRAGMA busy_timeout=0")
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            cursor.execute("PRAGMA busy_timeout=10000")


@contextmanager
def audit_refused(*, of: Request) -> Iterator[None]:
    """Refuse every new audit row of this request.

    The block may be entered and left in different threads, because each of them uses its own connection.
    """
    with databases.connection().cursor() as cursor:
        cursor.execute(
            f"CREATE TRIGGER refuse BEFORE INSERT ON {Cancellation._meta.db_table} "
            f"WHEN NEW.request_id = '{of.pk.hex}' BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
    try:
        yield
    finally:
        with databases.connection().cursor() as cursor:
            cursor.execute("DROP TRIGGER IF EXISTS refuse")


def away_at_first(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[int]:
    """Make the function fail three times, as if the database were away, before it works.

    Returns an iterator of the failures that are left.
    """
    function, failures = getattr(owner, name), iter(range(3))

    def failing(*args: Any) -> Any:
        if next(failures, None) is not None:
            raise OperationalError("the database is away")
        return function(*args)

    monkeypatch.setattr(owner, name, failing)
    return failures
