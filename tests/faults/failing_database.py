"""A database that fails: locked by another connection, or refusing an audit row. SQLite alone."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from mcp_app import databases
from mcp_app.models import Cancellation, Request

REFUSAL = "the audit is full"


@contextmanager
def write_lock() -> Iterator[None]:
    """While it is held nobody stores anything, and everybody waits."""
    name = databases.connection().settings_dict["NAME"]
    with closing(sqlite3.connect(name, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def locked() -> Iterator[None]:
    """Another connection writes for longer than anybody of this thread waits."""
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
    """No audit row of this request can be inserted. Begun and ended by whatever threads, each with its connection."""
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
