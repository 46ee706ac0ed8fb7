"""Finds a text in the rows of any table, and in the broker's folder."""

from pathlib import Path

from django.conf import settings
from django.db import connections


def find_in_rows(text: str) -> set[str]:
    """Return the tables and columns, of every database, that have `text` in a row."""
    return {place for alias in connections for place in _in_database(alias, text)}


def find_in_broker(text: str) -> set[str]:
    """Return the names of the broker's files that contain `text`."""
    folder = Path(settings.CELERY_BROKER_TRANSPORT_OPTIONS["folder"])
    assert folder.is_dir()
    return {path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()}


def _in_database(alias: str, text: str) -> set[str]:
    connection = connections[alias]
    found = set()
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                found |= {f"{table}.{name}" for name, value in zip(names, row, strict=True) if text in str(value)}
    return found
