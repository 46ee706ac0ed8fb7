"""The test's own database connections, lent to the tools that it calls: they see its data, its rollback ends theirs.

Nothing is closed. A tool that was stopped in the middle of a statement, or that left a transaction open, is taken back
to where it began. Refuses to cut a statement short on SQLite, which would roll the whole test's transaction back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.execution.connections import POSTGRESQL_ACTIVE, QUERY_CANCEL_TIMEOUT, ToolConnections, of_this_thread

POSTGRESQL_IN_ERROR = 3
"""libpq's PQTRANS_INERROR."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a connection was when a call began. `savepoint` None: in no transaction."""

    wrapper: BaseDatabaseWrapper
    savepoint: str | None
    depth: int
    blocks: int
    needed_rollback: bool


class BorrowedConnections(ToolConnections):
    """Those of the thread that makes it; lent to the threads of an `async` tool, too. One for each call."""

    def __init__(self) -> None:
        """Make it where no event loop runs: there a thread has others."""
        self.wrappers = of_this_thread()
        self._marks: list[_Mark] = []

    def freshen(self) -> None:
        self._marks = [_mark(wrapper) for wrapper in self.wrappers if wrapper.connection is not None]

    def drop_all(self) -> None:
        """Nothing: what was stopped is undone once the call is over."""

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

    def cancel_queries(self, wrappers: list[BaseDatabaseWrapper], *, no_sqlite: bool = False) -> None:
        super().cancel_queries(wrappers, no_sqlite=True)


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
    """Whoever waited for the answer of a statement was interrupted: have PostgreSQL end it, and read what it says."""
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
