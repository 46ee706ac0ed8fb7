"""Access to the database that holds this app's rows: `MCP["DATABASE"]`.

On SQLite it should be a file of its own. Otherwise a tool in a write transaction would block cancellations, heartbeats
and progress.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Generic, TypeVar

from django.conf import settings as django_settings
from django.db import InterfaceError, InternalError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from mcp_app.conf import settings

try:
    import fcntl
except ImportError:  # not a POSIX system, where SQLite waits by itself
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

Parameters = Sequence[Any] | Mapping[str, Any]

AWAY = (OperationalError, InterfaceError, InternalError)
"""Errors of a database that is away, or that accepts no writes, such as a standby of PostgreSQL."""

TURN_SECONDS = 5.0
TURN_POLL_SECONDS = 0.0001
"""Delay between the first attempts to get the turn. A statement takes little longer."""
LONG_TURN_POLL_SECONDS = 0.0005
LONG_TURN_POLLS = 20
"""Attempts after which another process evidently writes more than one statement."""


class MCPRouter:
    """A database router for the rows of this app and of `django_celery_results`, which go to `MCP["DATABASE"]`."""

    routed_apps = frozenset({"mcp_app", "django_celery_results"})

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return settings.DATABASE if model._meta.app_label in self.routed_apps else None

    db_for_write = db_for_read

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool | None:
        return True if {one._meta.app_label, other._meta.app_label} <= self.routed_apps else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        if app_label in self.routed_apps:
            return db == settings.DATABASE and not _is_schema_of_tenant(db)
        return False if db == settings.DATABASE != "default" else None


def _is_schema_of_tenant(alias: str) -> bool:
    """Return whether django-tenants uses a tenant's schema now. This app's tables are in the public one only."""
    public = getattr(django_settings, "PUBLIC_SCHEMA_NAME", "public")
    return getattr(connections[alias], "schema_name", public) != public


@contextmanager
def atomic() -> Iterator[None]:
    """Run the block in a transaction on this app's database."""
    with turn(connection()), transaction.atomic(using=settings.DATABASE):
        yield


def on_commit(function: Callable[[], object]) -> None:
    """Call `function` after this app's transaction is committed, or at once if there is none.

    Exceptions are logged, because the transaction has already been committed.
    """
    wrapper = connection()
    if wrapper.in_atomic_block:
        wrapper.on_commit(function, robust=True)
        return
    try:
        function()
    except Exception:
        logger.exception("a function registered with on_commit failed")


def connection() -> BaseDatabaseWrapper:
    """Return this thread's connection to this app's database."""
    return connections[settings.DATABASE]


def is_in_memory(name: str) -> bool:
    """Return whether an SQLite database's name is not the path of a file."""
    return name == ":memory:" or name.startswith("file:")


def create_sqlite_file(name: str) -> None:
    """Create the file of an SQLite database, readable by this user alone, unless it is there.

    The files that SQLite puts beside it get the same mode.
    """
    if is_in_memory(name):
        return
    with suppress(OSError):  # it exists, or cannot be created; opening the database reports why
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def rows(
    connection: BaseDatabaseWrapper, statement: str, parameters: Parameters | None = None
) -> list[tuple[Any, ...]]:
    """Execute a statement and return all its rows. Raises `django.db.Error`."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


@contextmanager
def turn(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """On SQLite, wait for the turn to write: an advisory lock beside the database file.

    While SQLite waits for its own lock, it sleeps up to 100 ms between two attempts. This lock is polled more often.
    After `TURN_SECONDS` the block runs without the turn and relies on SQLite's lock, in case the process that has the
    turn was stopped.
    """
    name = str(wrapper.settings_dict["NAME"])
    if wrapper.vendor != "sqlite" or wrapper.in_atomic_block or "memory" in name or fcntl is None:
        yield
        return
    descriptor = os.open(f"{name}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _await_turn(descriptor)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a forked process may have it open
        os.close(descriptor)


def _await_turn(descriptor: int) -> None:
    give_up_at = time.monotonic() + TURN_SECONDS
    polls = 0
    while time.monotonic() < give_up_at:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            polls += 1
            # Polled, because waiting for the lock in the kernel would have no time limit.
            time.sleep(TURN_POLL_SECONDS if polls <= LONG_TURN_POLLS else LONG_TURN_POLL_SECONDS)
        else:
            return


M = TypeVar("M", bound=Model)


class Columns(Generic[M]):
    """Some columns of a model, or all, for rows that hand-written statements return.

    `Manager.raw` does the same but takes four times as long for each row.
    """

    def __init__(self, model: type[M], *names: str) -> None:
        self._model = model
        self._fields = [each for each in model._meta.concrete_fields if not names or each.attname in names]
        self.names = [each.attname for each in self._fields]
        """The columns, in the order in which a statement must return them."""
        self._converters = cache(self._converters_of)

    def row(self, values: Sequence[Any]) -> M:
        """Return a model instance with these values. All other columns are deferred."""
        converted = list(values)
        for place, convert, column, connection in self._converters(settings.DATABASE):
            converted[place] = convert(converted[place], column, connection)
        return self._model.from_db(settings.DATABASE, self.names, converted)

    def _converters_of(self, alias: str) -> list[tuple[int, Any, Any, Any]]:
        connection = connections[alias]
        found = []
        for place, field in enumerate(self._fields):
            column = field.get_col(self._model._meta.db_table)
            steps = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
            found += [(place, step, column, connection) for step in steps]
        return found
