"""The databases of the site: each answers, takes writes, and is set as this app needs it.

Looked at: the one that holds this app's rows, and the site's own where that is another. Others of the site are its own.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final
from urllib.parse import quote

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.conf import settings
from mcp_app.diagnosis.examination import Seen, first_line
from mcp_app.diagnosis.findings import Finding, failed, ok, warning

NAME: Final = "database"
LOCK_SECONDS: Final = 2.0
"""How long a writer to SQLite may be waited for before its lock is called stuck."""
CROWDED: Final = 0.9
"""The share of a server's connections from which on new processes may get none."""
NO_SERVER: Final = "django.db.backends.dummy"


def aliases() -> list[str]:
    """This app's database, and the site's own where it is another."""
    both = dict.fromkeys((settings.DATABASE, "default"))
    return [alias for alias in both if connections[alias].settings_dict["ENGINE"] != NO_SERVER]


def look(seen: Seen) -> Iterator[Finding]:
    """A finding for each database."""
    for alias in aliases():
        try:
            yield _look_at(alias)
        except Error as error:
            yield _unusable(alias, error)


def answers() -> list[Finding]:
    """The same in short, for who asks every second: each database answers a query. Nothing is said of it."""
    found = []
    for alias in aliases():
        try:
            _ask(connections[alias], "SELECT 1")
            found.append(ok(NAME, f"{alias}: it answers."))
        except Error as error:
            found.append(_unusable(alias, error))
    return found


def _look_at(alias: str) -> Finding:
    connection = connections[alias]
    if connection.vendor == "sqlite" and _is_missing(connection):
        return failed(NAME, f"{alias}: the file {_file(connection)} is not there.", _migrate(alias))
    connection.ensure_connection()
    began_at = time.perf_counter()
    _ask(connection, "SELECT 1")
    took = (time.perf_counter() - began_at) * 1000
    return _LOOKS.get(connection.vendor, _other)(alias, connection, f"answers in {took:.1f} ms")


def _sqlite(alias: str, connection: BaseDatabaseWrapper, answers_in: str) -> Finding:
    mode = str(_ask(connection, "PRAGMA journal_mode")).upper()
    file = _file(connection)
    found = f"{alias}: SQLite {sqlite3.sqlite_version}, {mode}, at {file}, {answers_in}."
    if refusal := _refusal_to_write(file):
        remedy = f"Find who writes (`fuser {file}`): a long transaction ends, a stopped process is to be ended."
        return failed(NAME, f"{found} For {LOCK_SECONDS:g} s nobody could write: {refusal}.", remedy)
    if mode != "WAL" and mode != "MEMORY":
        lines = 'OPTIONS = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"}'
        return warning(NAME, f"{found} Readers and writers wait for each other.", f"Give it {lines}.")
    return ok(NAME, found)


def _postgresql(alias: str, connection: BaseDatabaseWrapper, answers_in: str) -> Finding:
    version = _ask(connection, "SHOW server_version")
    used, most = _ask(connection, "SELECT count(datid) FROM pg_stat_activity"), _ask(connection, "SHOW max_connections")
    found = f"{alias}: PostgreSQL {version}, {answers_in}, {used} of {most} connections in use."
    if _ask(connection, "SHOW transaction_read_only") == "on":
        remedy = f'Point DATABASES["{alias}"] at the server that takes writes.'
        return failed(NAME, f"{found} It takes no writes: it is a standby, or set so.", remedy)
    if used >= CROWDED * int(most):
        remedy = "Raise its max_connections, or put a pool such as pgBouncer in front of it."
        return warning(NAME, f"{found} The next process may get none.", remedy)
    return ok(NAME, found)


def _other(alias: str, connection: BaseDatabaseWrapper, answers_in: str) -> Finding:
    return ok(NAME, f"{alias}: {connection.display_name}, {answers_in}.")


_LOOKS: Final[dict[str, Callable[[str, BaseDatabaseWrapper, str], Finding]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
}


def _unusable(alias: str, error: Error) -> Finding:
    kind = connections[alias].display_name
    remedy = f'Start it, or correct DATABASES["{alias}"].'
    if connections[alias].vendor == "sqlite":
        remedy = (
            f"See that {_file(connections[alias])} can be opened and written by this user, and that nobody locks it."
        )
    return failed(NAME, f"{alias}: {kind} cannot be used: {first_line(error)}.", remedy)


def _refusal_to_write(file: str) -> str:
    """Why the lock for writing cannot be had, on a connection that waits no longer; empty where it can."""
    if _is_in_memory(file):
        return ""
    try:
        address = f"file:{quote(file)}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=LOCK_SECONDS, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
    except sqlite3.Error as error:
        return str(error)
    return ""


def _ask(connection: BaseDatabaseWrapper, query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def _is_missing(connection: BaseDatabaseWrapper) -> bool:
    """Asked first: to open it would make it."""
    return not _is_in_memory(_file(connection)) and not os.path.exists(_file(connection))


def _is_in_memory(file: str) -> bool:
    return file == ":memory:" or file.startswith("file:")


def _file(connection: BaseDatabaseWrapper) -> str:
    return str(connection.settings_dict["NAME"])


def _migrate(alias: str) -> str:
    return f"Run `python manage.py migrate --database {alias}`, or `python manage.py mcp serve`, which does."
