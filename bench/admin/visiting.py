"""Requests one page and measures its cost: times, queries, the work of SQLite, and the plan of the slowest query.

Times are not measured while statements are recorded or steps are counted.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client

from bench.admin.pages import Page

STEPS: Final = 1_000
"""The number of instructions of SQLite's virtual machine between two calls of the progress handler."""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement as it was executed."""

    alias: str
    sql: str
    parameters: Any
    seconds: float


@dataclass(slots=True)
class Visit:
    """The cost of a page. `steps` (SQLite only) and the plan do not depend on the load of the machine."""

    page: Page
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    """Processor time of this process. It includes the work of SQLite, but not of PostgreSQL."""
    queries: list[Query] = field(default_factory=list)
    steps: int = 0
    plan: str = ""
    """The plan of the slowest query."""
    failure: str = ""

    @property
    def milliseconds(self) -> float:
        return median(self.seconds) * 1000 if self.seconds else 0.0

    @property
    def slowest(self) -> Query | None:
        return max(self.queries, key=lambda query: query.seconds, default=None)


def visit(client: Client, page: Page, samples: int) -> Visit:
    """Request a page, record its queries and, with `samples`, measure it that many times.

    A status other than 200 is a failure, and so is a redirect to `e=1`, which the admin sends for bad parameters.
    """
    found = Visit(page)
    response = client.get(page.address, follow=True)  # fills the caches of this process
    if response.status_code != 200 or (response.redirect_chain and "e=1" in response.redirect_chain[-1][0]):
        found.failure = f"{response.status_code} at {response.request['PATH_INFO']}?{response.request['QUERY_STRING']}"
        return found
    with _recorded(found.queries):
        client.get(page.address, follow=True)
    if not samples:
        return found
    with _counted(found):
        client.get(page.address, follow=True)
    for _ in range(samples):
        began, cpu_began = time.perf_counter(), time.process_time()
        client.get(page.address, follow=True)
        found.seconds.append(time.perf_counter() - began)
        found.cpu_seconds.append(time.process_time() - cpu_began)
    if found.slowest is not None:
        found.plan = _plan(found.slowest)
    return found


@contextmanager
def _recorded(queries: list[Query]) -> Iterator[None]:
    def recorder(wrapper: BaseDatabaseWrapper) -> Any:
        def record(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
            began = time.perf_counter()
            try:
                return execute(sql, parameters, many, context)
            finally:
                queries.append(Query(wrapper.alias, sql, parameters, time.perf_counter() - began))

        return record

    with ExitStack() as entered:
        for wrapper in connections.all():
            entered.enter_context(wrapper.execute_wrapper(recorder(wrapper)))
        yield


@contextmanager
def _counted(found: Visit) -> Iterator[None]:
    """Count the steps of SQLite during the block."""

    def count() -> int:
        found.steps += STEPS
        return 0

    engines = [
        wrapper.connection for wrapper in connections.all() if isinstance(wrapper.connection, sqlite3.Connection)
    ]
    for engine in engines:
        engine.set_progress_handler(count, STEPS)
    try:
        yield
    finally:
        for engine in engines:
            engine.set_progress_handler(None, 0)


def _plan(query: Query) -> str:
    """Return the query plan of a statement. PostgreSQL's plan also has the row counts of an execution."""
    wrapper = connections[query.alias]
    explain = (
        "EXPLAIN QUERY PLAN" if wrapper.vendor == "sqlite" else "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, SUMMARY OFF)"
    )
    if not query.sql.lstrip().upper().startswith(("SELECT", "WITH")):
        return ""
    with wrapper.cursor() as cursor:
        cursor.execute(f"{explain} {query.sql}", query.parameters)
        return "\n".join(str(row[-1]) for row in cursor.fetchall())
