"""Writes every statement that a process of the site sends to its database to a file, with the process id.

Installed only if `BENCH_STATEMENTS` is set, because it costs time. `BEGIN`, `COMMIT` and `ROLLBACK` are also recorded.
Long statements are cut, and parameters are not written.
"""

import json
import os
from collections.abc import Callable
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from bench.peers.servers.steps import append

FILE = "BENCH_STATEMENTS"
"""The environment variable that names the file."""
STATEMENT_CHARS = 4000


def record(path: str) -> None:
    """Record from now on, on every new connection of this process and of the processes that it forks."""

    def note(statement: str) -> None:
        append(path, json.dumps([os.getpid(), " ".join(statement.split())[:STATEMENT_CHARS]]) + "\n")

    def execute(call: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        note(sql)
        return call(sql, params, many, context)

    def connected(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        if execute not in connection.execute_wrappers:
            connection.execute_wrappers.append(execute)

    connection_created.connect(connected, weak=False)
    _note_ends_of_transactions(note)


def _note_ends_of_transactions(note: Callable[[str], None]) -> None:
    """Record the ends of transactions, and on PostgreSQL their beginnings, because these use no cursor."""

    def noting(owner: type, name: str, statement: str, *, when: Callable[..., bool]) -> None:
        method = getattr(owner, name)

        def noted(self: BaseDatabaseWrapper, *arguments: Any) -> Any:
            if self.connection is not None and when(*arguments):
                note(statement)
            return method(self, *arguments)

        setattr(owner, name, noted)

    noting(BaseDatabaseWrapper, "_commit", "COMMIT", when=lambda: True)
    noting(BaseDatabaseWrapper, "_rollback", "ROLLBACK", when=lambda: True)
    for owner in {type(wrapper) for wrapper in connections.all() if wrapper.vendor == "postgresql"}:
        noting(owner, "_set_autocommit", "BEGIN", when=lambda autocommit: not autocommit)
