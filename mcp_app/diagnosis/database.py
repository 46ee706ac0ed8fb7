"""Check the databases: each responds, accepts writes, and is configured as this app needs it.

The checked databases are the one with this app's rows and `default`. Any others are the site's own
matter.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final
from urllib.parse import quote

from celery import current_app
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.conf import settings
from mcp_app.databases import is_in_memory
from mcp_app.diagnosis import file_permissions
from mcp_app.diagnosis.examination import Finding, SharedFacts, failed, first_line, ok, warning

NAME: Final = "database"
LOCK_SECONDS: Final = 2.0
"""How long SQLite's write lock may be held before the check fails."""
CROWDED: Final = 0.9
"""The share of used connections from which new processes may not get one."""
UNPREPARED: Final = (
    'It plans each statement anew every time: OPTIONS = {"server_side_binding": True, '
    '"prepare_threshold": 5} avoids that, '
    "unless a pool such as pgBouncer is in front of it."
)
RECONNECTS: Final = "Celery connects anew for every call: CELERY_DB_REUSE_MAX = 1000 avoids that."
NO_SERVER: Final = "django.db.backends.dummy"


def aliases() -> list[str]:
    """Return the alias of this app's database, and `default` if that is another one."""
    both = dict.fromkeys((settings.DATABASE, "default"))
    return [alias for alias in both if connections[alias].settings_dict["ENGINE"] != NO_SERVER]


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check the databases. Yields a finding for each."""
    for alias in aliases():
        try:
            yield _check_database(alias)
        except Error as error:
            yield _unusable_database(alias, error)


def check_quickly() -> list[Finding]:
    """Check only that each database answers a query, for probes every second."""
    found = []
    for alias in aliases():
        try:
            _query(connections[alias], "SELECT 1")
            found.append(ok(NAME, f"{alias}: it answers."))
        except Error as error:
            found.append(_unusable_database(alias, error))
    return found


def _check_database(alias: str) -> Finding:
    connection = connections[alias]
    if connection.vendor == "sqlite":
        file = _file(connection)
        # Must come first, because opening the database would create the file.
        if not is_in_memory(file) and not os.path.exists(file):
            remedy = f"Run `python manage.py migrate --database {alias}`, or `python manage.py mcp serve`, which does."
            return failed(NAME, f"{alias}: the file {file} is not there.", remedy)
    connection.ensure_connection()
    began_at = time.perf_counter()
    _query(connection, "SELECT 1")
    took = (time.perf_counter() - began_at) * 1000
    return _VENDOR_CHECKS.get(connection.vendor, _other)(alias, connection, f"answers in {took:.1f} ms")


def _check_sqlite(alias: str, connection: BaseDatabaseWrapper, answers_in: str) -> Finding:
    mode = str(_query(connection, "PRAGMA journal_mode")).upper()
    file = _file(connection)
    found = f"{alias}: SQLite {sqlite3.sqlite_version}, {mode}, at {file}, {answers_in}."
    if refusal := _find_write_error(file):
        remedy = (
            f"Find the process that writes (`fuser {file}`): wait for a long transaction, or end a stopped process."
        )
        return failed(NAME, f"{found} For {LOCK_SECONDS:g} s no process could write: {refusal}.", remedy)
    if alias == settings.DATABASE and mode not in ("WAL", "MEMORY"):
        lines = 'OPTIONS = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"}'
        return warning(NAME, f"{found} Readers and writers wait for each other.", f"Give it {lines}.")
    if file_permissions.others_may(file_permissions.READ, file):
        remedy = f"Run `chmod o= {file}*`, or keep it in a folder that only this user can enter."
        return warning(NAME, f"{found} Every user of this machine can read it.", remedy)
    return ok(NAME, found)


def _check_postgresql(alias: str, connection: BaseDatabaseWrapper, answers_in: str) -> Finding:
    version = _query(connection, "SHOW server_version")
    used, most = (
        _query(connection, "SELECT count(datid) FROM pg_stat_activity"),
        _query(connection, "SHOW max_connections"),
    )
    found = f"{alias}: PostgreSQL {version}, {answers_in}, {used} of {most} connections in use."
    if _query(connection, "SHOW transaction_read_only") == "on":
        remedy = f'Point DATABASES["{alias}"] at the server that takes writes.'
        return failed(NAME, f"{found} It is read-only: a standby, or configured so.", remedy)
    if used >= CROWDED * int(most):
        remedy = "Raise its max_connections, or put a pool such as pgBouncer in front of it."
        return warning(NAME, f"{found} The next process may get none.", remedy)
    options = connection.settings_dict["OPTIONS"]
    is_prepared = options.get("server_side_binding") and options.get("prepare_threshold") is not None
    keeps = current_app.conf.get("CELERY_DB_REUSE_MAX")
    return ok(NAME, " ".join([found, *([] if is_prepared else [UNPREPARED]), *([] if keeps else [RECONNECTS])]))


def _check_mysql(alias: str, connection: BaseDatabaseWrapper, answers_in: str) -> Finding:
    used = _query(connection, "SHOW STATUS LIKE 'Threads_connected'", column=1)
    most = _query(connection, "SELECT @@max_connections")
    found = (
        f"{alias}: {connection.display_name} {_query(connection, 'SELECT VERSION()')}, {answers_in}, "
        f"{used} of {most} connections in use."
    )
    if int(_query(connection, "SELECT @@read_only")):
        remedy = f'Point DATABASES["{alias}"] at the server that takes writes.'
        return failed(NAME, f"{found} It is read-only: a replica, or configured so.", remedy)
    try:
        _query(connection, "SELECT 1; SELECT 2")
    except Error:
        remedy = f'Use mysqlclient, and leave `multi_statements` out of OPTIONS of DATABASES["{alias}"].'
        return failed(NAME, f"{found} Its client library does not send several statements at once.", remedy)
    if int(used) >= CROWDED * int(most):
        return warning(NAME, f"{found} The next process may get none.", "Raise its max_connections.")
    if connection.display_name != "MariaDB":
        return warning(
            NAME, f"{found} This app is tested on MariaDB only.", "Try your tools, and stopping them, first."
        )
    keeps = current_app.conf.get("CELERY_DB_REUSE_MAX")
    return ok(NAME, " ".join([found, *([] if keeps else [RECONNECTS])]))


def _other(alias: str, connection: BaseDatabaseWrapper, answers_in: str) -> Finding:
    return ok(NAME, f"{alias}: {connection.display_name}, {answers_in}.")


_VENDOR_CHECKS: Final[dict[str, Callable[[str, BaseDatabaseWrapper, str], Finding]]] = {
    "sqlite": _check_sqlite,
    "postgresql": _check_postgresql,
    "mysql": _check_mysql,
}


def _unusable_database(alias: str, error: Error) -> Finding:
    kind = connections[alias].display_name
    remedy = f'Start it, or correct DATABASES["{alias}"].'
    if connections[alias].vendor == "sqlite":
        remedy = (
            f"Check that this user can open and write {_file(connections[alias])}, and that no process keeps it locked."
        )
    return failed(NAME, f"{alias}: {kind} cannot be used: {first_line(error)}.", remedy)


def _find_write_error(file: str) -> str:
    """Return why the write lock cannot be acquired within `LOCK_SECONDS`, or an empty string."""
    if is_in_memory(file):
        return ""
    try:
        address = f"file:{quote(file)}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=LOCK_SECONDS, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
    except sqlite3.Error as error:
        return str(error)
    return ""


def _query(connection: BaseDatabaseWrapper, query: str, *, column: int = 0) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[column]


def _file(connection: BaseDatabaseWrapper) -> str:
    return str(connection.settings_dict["NAME"])
