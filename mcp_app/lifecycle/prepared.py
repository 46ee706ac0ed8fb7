"""Statements that every call pays for, as their database wants them, and past Django's cursor where nobody looks at it.

PostgreSQL parses and plans one once for a connection: psycopg 3 prepares what is sent again and again with parameters
of its own, where Django's cursors write theirs into the text. Not where connections are pooled by transaction, so that
a statement meets another's: Django is told so by `DISABLE_SERVER_SIDE_CURSORS`, psycopg by its option
`prepare_threshold`, which is left as the site has it; who said neither is found out by the first statement that the
server does not know. SQLite's module keeps them by their text, which Django writes anew each time. Refuses to know any
statement.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

Parameters = Sequence[Any] | Mapping[str, Any]

THRESHOLD = 2
"""How often a connection sends a statement before it is prepared: a group of an unusual size comes once."""
_NOT_AS_PREPARED = frozenset({"26000", "42P05", "0A000"})
"""SQLSTATEs: no such prepared statement, one of that name, its columns are others since a migration."""

_PLACE = re.compile(r"%(?:\((?P<name>\w+)\))?[s%]")

_given_up = threading.Event()


def rows(connection: BaseDatabaseWrapper, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    """All that a statement returns, which has parameters where Django's have them. Raises django.db.Error."""
    if connection.vendor == "sqlite" and not _is_looked_at(connection):
        return _on_sqlite(connection, statement, parameters)
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


def _is_looked_at(connection: BaseDatabaseWrapper) -> bool:
    """Whether somebody has asked to see statements: they know Django's."""
    return bool(connection.queries_logged or connection.execute_wrappers)


def _on_sqlite(connection: BaseDatabaseWrapper, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors:
        return list(connection.connection.execute(_as_sqlite_has_it(statement), parameters))


@lru_cache(maxsize=128)
def _as_sqlite_has_it(statement: str) -> str:
    return _placed(statement, lambda name: f":{name}" if name else "?")


def _may_prepare(connection: BaseDatabaseWrapper) -> bool:
    """Not within a transaction, which an unknown statement would end."""
    if connection.vendor != "postgresql" or connection.in_atomic_block or _given_up.is_set():
        return False
    return _has_raw_cursors() and not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")


@cache
def _has_raw_cursors() -> bool:
    """Whether Django speaks psycopg 3 here, and of a version (3.2) that takes a statement as PostgreSQL does."""
    try:
        from psycopg import RawCursor  # noqa: F401 - what is asked is whether it is there
    except ImportError:
        return False
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return is_psycopg3


def _prepared(connection: BaseDatabaseWrapper, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    connection.ensure_connection()
    with connection.wrap_database_errors:
        if "prepare_threshold" not in connection.settings_dict["OPTIONS"]:
            connection.connection.prepare_threshold = THRESHOLD
    if _is_looked_at(connection):
        return _seen(connection, statement, parameters)
    from psycopg import RawCursor

    text, names = _numbered(statement)
    values = parameters if isinstance(parameters, Sequence) else [parameters[name] for name in names]
    with connection.wrap_database_errors, RawCursor(connection.connection) as cursor:
        return list(cursor.execute(text, values).fetchall())


def _seen(connection: BaseDatabaseWrapper, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    """The same by Django's cursor, where somebody looks."""
    from django.db.backends.postgresql.base import ServerBindingCursor

    with connection.wrap_database_errors:
        own: Any = ServerBindingCursor(connection.connection)  # type: ignore[call-arg] # its stubs are of psycopg 2
    with connection.make_debug_cursor(own) if connection.queries_logged else connection.make_cursor(own) as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


@lru_cache(maxsize=128)
def _numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """The statement in PostgreSQL's own words, and the names of its parameters in their order.

    psycopg looks through a statement for its parameters each time, where it is long or has many.
    """
    places: dict[str, int] = {}

    def place(name: str | None) -> str:
        return f"${places.setdefault(name or f'{len(places)}', len(places) + 1)}"

    return _placed(statement, place), tuple(places)


def _placed(statement: str, place: Callable[[str | None], str]) -> str:
    """The statement with what `place` writes for each of Django's parameters, by its name if it has one."""
    return _PLACE.sub(lambda found: "%" if found.group().endswith("%") else place(found["name"]), statement)
