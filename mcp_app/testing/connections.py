"""Lend the test's database connections to the tools that it calls, so that they share its data and its rollback.

Connections stay open. If a tool was stopped during a statement, or left a transaction open, its connection is rolled
back to where the call began. Statements are not interrupted on SQLite, because that would roll back the test's whole
transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.execution.process.slots import (
    POSTGRESQL_ACTIVE,
    QUERY_CANCEL_TIMEOUT,
    ToolConnections,
    connections_of_this_thread,
)

POSTGRESQL_IN_ERROR = 3
"""libpq's PQTRANS_INERROR."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state of a connection when a call began. `savepoint` is `None` outside of a transaction."""

    wrapper: BaseDatabaseWrapper
    savepoint: str | None
    depth: int
    blocks: int
    needed_rollback: bool


class BorrowedConnections(ToolConnections):
    """The connections of the thread that creates it, lent also to the threads of an `async` tool. One per call."""

    def __init__(self) -> None:
        """Take the connections of this thread, in which no event loop may run."""
        self.wrappers = connections_of_this_thread()
        self._marks: list[_Mark] = []

    def freshen(self) -> None:
        self._marks = [_mark(wrapper) for wrapper in self.wrappers if wrapper.connection is not None]

    def drop_all(self) -> None:
        """Do nothing, because interrupted statements are undone at the end of the call."""

    def drop_unfinished(self, wrappers: list[BaseDatabaseWrapper]) -> None:
        for mark in self._marks:
            _settle(mark)

    def enter_thread(self) -> list[BaseDatabaseWrapper]:
        for wrapper in self.wrappers:
            wrapper.inc_thread_sharing()
            connections[wrapper.alias] = wrapper
        return list(self.wrappers)

    def leave_threads(self, wrappers: Sequence[BaseDatabaseWrapper]) -> None:
        for wrapper in wrappers:
            wrapper.dec_thread_sharing()

    def cancel_queries(self, wrappers: list[BaseDatabaseWrapper], *, is_interrupted: bool = False) -> None:
        super().cancel_queries(wrappers, is_interrupted=True)


def _mark(wrapper: BaseDatabaseWrapper) -> _Mark:
    savepoint = wrapper.savepoint() if wrapper.in_atomic_block else None
    blocks = wrapper.atomic_blocks
    return _Mark(wrapper, savepoint, len(wrapper.savepoint_ids), len(blocks), wrapper.needs_rollback)


def _settle(mark: _Mark) -> None:
    wrapper = mark.wrapper
    _end_statement(wrapper)
    if mark.savepoint is None:
        if wrapper.in_atomic_block:
            _end_transaction(wrapper)
        return
    if not _is_as_it_was(mark):
        del wrapper.savepoint_ids[mark.depth :], wrapper.atomic_blocks[mark.blocks :]
        wrapper.needs_rollback = mark.needed_rollback
        wrapper.savepoint_rollback(mark.savepoint)
    wrapper.savepoint_commit(mark.savepoint)


def _end_statement(wrapper: BaseDatabaseWrapper) -> None:
    """Cancel a statement on PostgreSQL whose wait was interrupted, and read the rest of its response."""
    protocol = getattr(wrapper.connection, "pgconn", None)
    if protocol is None or protocol.transaction_status != POSTGRESQL_ACTIVE:
        return
    wrapper.connection.cancel_safe(timeout=QUERY_CANCEL_TIMEOUT)
    while protocol.get_result() is not None:
        pass


def _is_as_it_was(mark: _Mark) -> bool:
    wrapper = mark.wrapper
    protocol = getattr(wrapper.connection, "pgconn", None)
    aborted = protocol is not None and protocol.transaction_status == POSTGRESQL_IN_ERROR
    place = (len(wrapper.savepoint_ids), len(wrapper.atomic_blocks), wrapper.needs_rollback)
    return not aborted and place == (mark.depth, mark.blocks, mark.needed_rollback)


def _end_transaction(wrapper: BaseDatabaseWrapper) -> None:
    """Roll back a transaction whose block was not left."""
    wrapper.savepoint_ids.clear()
    wrapper.atomic_blocks.clear()
    wrapper.in_atomic_block = wrapper.needs_rollback = False
    wrapper.rollback()
    wrapper.set_autocommit(True)
