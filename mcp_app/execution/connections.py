"""The tool's database connections: a running query is cancelled with its tool, and none is used again after a stop.

A signal is not seen inside a long query, and a connection interrupted in mid-query may be in any state.
"""

import logging
import sqlite3
from contextlib import suppress

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

QUERY_CANCEL_TIMEOUT = 1.0


def of_this_thread() -> list[BaseDatabaseWrapper]:
    """The connection wrappers that this thread's code uses, connected or not."""
    return list(connections.all())


def cancel_queries(wrappers: list[BaseDatabaseWrapper]) -> None:
    """Cancel what the connections are executing, from another thread than theirs."""
    for wrapper in wrappers:
        raw = wrapper.connection
        if raw is None:
            continue
        try:
            if isinstance(raw, sqlite3.Connection):
                raw.interrupt()
            elif hasattr(raw, "cancel_safe"):
                raw.cancel_safe(timeout=QUERY_CANCEL_TIMEOUT)
        except Exception:
            logger.warning("a query on %s could not be cancelled", wrapper.alias, exc_info=True)


def drop_all() -> None:
    """Close this thread's connections without asking them anything, and forget them."""
    for alias in connections:
        wrapper = getattr(connections._connections, alias, None)  # type: ignore[attr-defined] # has no public look-up
        if wrapper is None:
            continue
        if wrapper.connection is not None:
            with suppress(Exception):
                wrapper.connection.close()
        del connections[alias]
