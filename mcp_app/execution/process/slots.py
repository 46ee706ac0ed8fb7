"""The slot in which a call runs: its database connections, and the processes that it starts.

A process of a prefork pool runs one call at a time. Everything that the process started belongs to
that call, and changes to the process itself are undone after it. In a pool of threads only some of
this can be attributed to a call: processes that its own thread started (on Linux), and processes
that carry the call's marker (`MCP_REQUEST`), which `ToolContext.run` sets. All others are left
alone, because they may belong to another call.

Connections: a signal is not seen inside a long query, so a running query is cancelled together with
its tool. A connection that was interrupted in a query may be in any state. So no connection of a
stopped call is used again.
"""

import logging
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from psutil import NoSuchProcess, Process

from mcp_app.execution.stopping import processes
from mcp_app.execution.stopping.interrupt import Interrupter
from mcp_app.execution.stopping.processes import Reaper

logger = logging.getLogger(__name__)

QUERY_CANCEL_TIMEOUT = 1.0
POSTGRESQL_ACTIVE = 1
"""libpq's PQTRANS_ACTIVE."""


def connections_of_this_thread() -> list[BaseDatabaseWrapper]:
    """Return the connection wrappers that this thread's code uses, connected or not."""
    return list(connections.all())


def with_running_query(wrappers: list[BaseDatabaseWrapper]) -> list[BaseDatabaseWrapper]:
    """Return the wrappers whose connection executes a query.

    The drivers of SQLite and MySQL do not show that, so each of their connections counts.
    """
    return [wrapper for wrapper in wrappers if wrapper.connection is not None and _may_execute(wrapper.connection)]


def _may_execute(raw: Any) -> bool:
    protocol = getattr(raw, "pgconn", None)
    return protocol is None or protocol.transaction_status == POSTGRESQL_ACTIVE


_mysql_ids: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""The id of each connection to MySQL in the server. While a query runs, mysqlclient does not tell it."""


@receiver(connection_created)
def note_mysql_id(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Note the id of a new connection to MySQL, with which its query can be cancelled."""
    if connection.vendor == "mysql":
        _mysql_ids[connection.connection] = connection.connection.thread_id()


class ToolConnections:
    """The database connections of one call, in its own thread and in threads that it starts."""

    def freshen(self) -> None:
        """Close connections that are too old, or that the database has closed.

        Call this before a call.
        """
        for wrapper in connections.all(initialized_only=True):
            wrapper.close_if_unusable_or_obsolete()

    def drop_all(self) -> None:
        """Close this thread's connections without using them, and forget them.

        Call this after a stop.
        """
        for wrapper in connections.all(initialized_only=True):
            if wrapper.connection is not None:
                _close(wrapper.connection)
            del connections[wrapper.alias]

    def drop_unfinished(self, wrappers: list[BaseDatabaseWrapper]) -> None:
        """Roll back a transaction that a call left open; the next call would run inside it."""
        unfinished = [each.alias for each in wrappers if each.connection is not None and each.in_atomic_block]
        if unfinished:
            aliases = ", ".join(unfinished)
            logger.warning("a tool left a transaction open on the database %s; it is rolled back", aliases)
            self.drop_all()

    def enter_thread(self) -> list[BaseDatabaseWrapper]:
        """Return the connections of a new thread of the call. Called in that thread."""
        return connections_of_this_thread()

    def leave_threads(self, wrappers: list[BaseDatabaseWrapper]) -> None:
        """Close the connections of threads that have ended, without using them."""
        for wrapper in wrappers:
            if wrapper.connection is not None:
                _close(wrapper.connection)

    def cancel_queries(self, wrappers: list[BaseDatabaseWrapper], *, is_interrupted: bool = False) -> None:
        """Cancel the queries that the connections execute. Called from another thread.

        If the code of the call `is_interrupted` already, the query of SQLite or MySQL has ended before. Another one may
        be a part of the clean-up. On PostgreSQL the old query still runs on the server.
        """
        for wrapper in list(wrappers):
            raw = wrapper.connection
            if raw is None:
                continue
            try:
                if hasattr(raw, "cancel_safe"):
                    raw.cancel_safe(timeout=QUERY_CANCEL_TIMEOUT)
                elif is_interrupted:
                    continue
                elif isinstance(raw, sqlite3.Connection):
                    raw.interrupt()
                elif raw in _mysql_ids:
                    _kill_query(wrapper, _mysql_ids[raw])
            except Exception:
                logger.warning("a query on %s could not be cancelled", wrapper.alias, exc_info=True)


def _kill_query(wrapper: BaseDatabaseWrapper, connection_id: int) -> None:
    """Cancel the query of a connection to MySQL, with another connection."""
    other = wrapper.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("KILL QUERY %s", [connection_id])
    finally:
        other.close()


def _close(raw: Any) -> None:
    """Close a connection.

    SQLite keeps its lock while a cursor of a closed connection exists, so roll back first.
    psycopg's pool (`OPTIONS["pool"]`) must get its connection back, which it then replaces.
    """
    with suppress(Exception):
        if isinstance(raw, sqlite3.Connection):
            raw.rollback()
    with suppress(Exception):
        raw.close()
    if (pool := getattr(raw, "_pool", None)) is not None:
        with suppress(Exception):
            pool.putconn(raw)


class Slot:
    """The resources of one call among others. Its processes are known by their marker only."""

    def __init__(self, interrupter: Interrupter, connections: ToolConnections | None = None) -> None:
        self.interrupter = interrupter
        self.connections = connections or ToolConnections()

    def isolated(self, request_id: UUID) -> AbstractContextManager[None]:
        """Mark processes that are started in the block, and undo changes to this process after it.

        Does nothing in a shared process, because all threads have the same environment.
        """
        return nullcontext()

    def started(self) -> set[Process]:
        """Return the processes that the call started, as far as they are its descendants.

        Safe in any thread.
        """
        return set()

    def leave_to_supervision(self) -> None:
        """Give up the row of a call whose ending cannot be stored, so that supervision closes it.

        Does nothing in a shared process, whose ladder closes rows that no thread runs.
        """

    def kill_leftovers(self, request_id: UUID, *, marked: bool = True) -> bool:
        """Kill and reap the processes that the call started, after its body has ended.

        Return whether none is left. `marked` says whether a process may carry the marker although
        it is no descendant.
        """
        if not marked and not self.started():
            return True
        started: set[Process] = set()

        def find_tree() -> set[Process]:
            started.update(self.started())
            return started

        gone = processes.kill_all(request_id, find_tree)
        processes.reap(started)
        return gone


class ProcessSlot(Slot):
    """The slot of a pool process, which runs one call at a time."""

    def __init__(self, interrupter: Interrupter, connections: ToolConnections | None = None) -> None:
        super().__init__(interrupter, connections)
        self._reaper = Reaper()

    @contextmanager
    def isolated(self, request_id: UUID) -> Iterator[None]:
        with _restored_process():
            os.environ[processes.MARKER] = str(request_id)
            yield
        self._reaper.reap_abandoned()

    def started(self) -> set[Process]:
        return processes.descendants(os.getpid())

    def leave_to_supervision(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def kill_leftovers(self, request_id: UUID, *, marked: bool = True) -> bool:
        # Its environment is marked, and inherited by its programs.
        return super().kill_leftovers(request_id)


class ThreadSlot(Slot):
    """The slot of a call in this thread.

    Processes that the thread started before it are not included.
    """

    def __init__(self, interrupter: Interrupter, connections: ToolConnections | None = None) -> None:
        super().__init__(interrupter, connections)
        self._thread = threading.get_native_id()
        self._others = processes.children_of_thread(self._thread)

    def started(self) -> set[Process]:
        children = processes.children_of_thread(self._thread) - self._others
        found = set(children)
        for child in children:
            with suppress(NoSuchProcess):
                found.update(child.children(recursive=True))
        return found


@contextmanager
def _restored_process() -> Iterator[None]:
    """Restore the process's folder, umask and environment after the block, and stop a timer."""
    folder = None
    with suppress(FileNotFoundError):
        folder = os.getcwd()
    umask = os.umask(0o077)
    os.umask(umask)
    environment = dict(os.environ)
    timer, _ = signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        os.umask(umask)
        # Change only variables that differ: other threads may read the environment.
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        for name, value in environment.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
        if not timer:
            # A timer that the tool has set (`signal.alarm`) would end a later call.
            signal.setitimer(signal.ITIMER_REAL, 0)
        if folder is not None:
            try:
                os.chdir(folder)
            except OSError as error:
                logger.error("the working folder %s cannot be restored after a call: %s", folder, error)
