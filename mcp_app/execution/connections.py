"""The tool's database connections: a running query is cancelled with its tool, and none is used again after a stop.

A signal is not seen inside a long query, and a connection interrupted in mid-query may be in any state.
"""

import logging
import sqlite3
from contextlib import suppress
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

QUERY_CANCEL_TIMEOUT = 1.0
POSTGRESQL_ACTIVE = 1
"""libpq's PQTRANS_ACTIVE."""


def of_this_thread() -> list[BaseDatabaseWrapper]:
    """The connection wrappers that this thread's code uses, connected or not."""
    return list(connections.all())


def executing(wrappers: list[BaseDatabaseWrapper]) -> list[BaseDatabaseWrapper]:
    """Those whose connection executes something, as far as a driver tells: SQLite's does not, so it counts."""
    return [wrapper for wrapper in wrappers if wrapper.connection is not None and _may_execute(wrapper.connection)]


class ToolConnections:
    """Those of the thread that runs a call, and of the threads that the call starts: nobody else's."""

    def freshen(self) -> None:
        """Before a call: drop the connections that are too old or that the database ended meanwhile."""
        for wrapper in connections.all(initialized_only=True):
            wrapper.close_if_unusable_or_obsolete()

    def drop_all(self) -> None:
        """After a stop: close this thread's connections without asking them anything, and forget them."""
        for alias in connections:
            wrapper = getattr(connections._connections, alias, None)  # type: ignore[attr-defined] # has no public look-up
            if wrapper is None:
                continue
            if wrapper.connection is not None:
                _close(wrapper.connection)
            del connections[alias]

    def drop_unfinished(self, wrappers: list[BaseDatabaseWrapper]) -> None:
        """After a call: a transaction that it left open is rolled back, or the next call would run inside it."""
        if any(wrapper.connection is not None and wrapper.in_atomic_block for wrapper in wrappers):
            logger.warning("a tool left a transaction open; it is rolled back")
            self.drop_all()

    def enter_thread(self) -> list[BaseDatabaseWrapper]:
        """In a thread that the call starts: the connections that its code uses there."""
        return of_this_thread()

    def leave_threads(self, wrappers: list[BaseDatabaseWrapper]) -> None:
        """Close the connections of threads that have ended, without asking them anything."""
        for wrapper in wrappers:
            if wrapper.connection is not None:
                _close(wrapper.connection)

    def cancel_queries(self, wrappers: list[BaseDatabaseWrapper], *, no_sqlite: bool = False) -> None:
        """Cancel what the connections are executing, from another thread than theirs."""
        for wrapper in list(wrappers):
            raw = wrapper.connection
            if raw is None:
                continue
            try:
                if isinstance(raw, sqlite3.Connection):
                    if not no_sqlite:
                        raw.interrupt()
                elif hasattr(raw, "cancel_safe"):
                    raw.cancel_safe(timeout=QUERY_CANCEL_TIMEOUT)
            except Exception:
                logger.warning("a query on %s could not be cancelled", wrapper.alias, exc_info=True)


def _may_execute(raw: Any) -> bool:
    protocol = getattr(raw, "pgconn", None)
    return protocol is None or protocol.transaction_status == POSTGRESQL_ACTIVE


def _close(raw: Any) -> None:
    """On SQLite with its transaction undone: closed alone, it keeps its lock for as long as any cursor of it lives."""
    with suppress(Exception):
        if isinstance(raw, sqlite3.Connection):
            raw.rollback()
    with suppress(Exception):
        raw.close()
    # Closed alone, it keeps its place in a pool of psycopg's (`OPTIONS["pool"]`): given back, it is replaced.
    if (pool := getattr(raw, "_pool", None)) is not None:
        with suppress(Exception):
            pool.putconn(raw)
