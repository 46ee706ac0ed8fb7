"""Statements that every call pays for, prepared: PostgreSQL parses and plans one once for a connection.

psycopg 3 prepares what is sent again and again with parameters of its own; Django's cursors write theirs into the text.
Not where connections are pooled by transaction, so that a statement meets another's: Django is told so by
`DISABLE_SERVER_SIDE_CURSORS`, psycopg by its option `prepare_threshold`, which is left as the site has it; who said
neither is found out by the first statement that the server does not know. Refuses to know any statement.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

Parameters = Sequence[Any] | Mapping[str, Any]

THRESHOLD = 2
"""How often a connection sends a statement before it is prepared: a group of an unusual size comes once."""
_NOT_AS_PREPARED = frozenset({"26000", "42P05", "0A000"})
"""SQLSTATEs: no such prepared statement, one of that name, its columns are others since a migration."""

_given_up = threading.Event()


def rows(connection: BaseDatabaseWrapper, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    """All that a statement returns, which has parameters where Django's have them. Raises django.db.Error."""
    if not _may_prepare(connection):
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())
    try:
        return _prepared(connection, statement, parameters)
    except Error as error:
        if getattr(error.__cause__, "sqlstate", None) not in _NOT_AS_PREPARED:
            raise
        if not _given_up.is_set():
            logger.warning("statements are not prepared any more, as the database does not keep them: %s", error)
            _given_up.set()
        return rows(connection, statement, parameters)


def _may_prepare(connection: BaseDatabaseWrapper) -> bool:
    """Not within a transaction, which an unknown statement would end."""
    if connection.vendor != "postgresql" or connection.in_atomic_block or _given_up.is_set():
        return False
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return is_psycopg3 and not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")


def _prepared(connection: BaseDatabaseWrapper, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    from django.db.backends.postgresql.base import ServerBindingCursor

    connection.ensure_connection()
    with connection.wrap_database_errors:
        if "prepare_threshold" not in connection.settings_dict["OPTIONS"]:
            connection.connection.prepare_threshold = THRESHOLD
        own: Any = ServerBindingCursor(connection.connection)  # type: ignore[call-arg] # its stubs are of psycopg 2
    with connection.make_debug_cursor(own) if connection.queries_logged else connection.make_cursor(own) as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
