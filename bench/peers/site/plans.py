"""Writes the query plan of each statement to a file, the first time that a process sends the statement.

Installed only if `BENCH_PLANS` is set. Plans have no costs, because these differ from run to run.
"""

import json
import os
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from bench.peers.servers.steps import append

FILE = "BENCH_PLANS"
"""The environment variable that names the file."""
_EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN (COSTS OFF)"}
_PLANNED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


def record(path: str) -> None:
    """Record from now on, on every new connection of this process and of the processes that it forks."""
    told: set[str] = set()

    def explain(call: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql not in told and sql.startswith(_PLANNED):
            told.add(sql)
            with context["connection"].cursor() as cursor:
                cursor.execute(f"{_EXPLAIN[context['connection'].vendor]} {sql}", params[0] if many else params)
                plan = [str(row[-1]) for row in cursor.fetchall()]
            append(path, json.dumps([os.getpid(), sql, plan]) + "\n")
        return call(sql, params, many, context)

    def connected(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        if explain not in connection.execute_wrappers:
            connection.execute_wrappers.append(explain)

    connection_created.connect(connected, weak=False)
