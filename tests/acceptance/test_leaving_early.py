"""Clients that disconnect while their call is being stored or published: rows A2, A3.

A real server is blocked at that step by a lock in its database, by the lock of the broker's folder, or by a frozen
broker.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.support.site import layouts, own_engines, programs
from tests.support.site.services import ServicesMissingError, missing, only_on_postgresql
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import Connection, message, text
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(200)

Waits = Callable[[Server], bool]
IN_THE_QUEUE: Final = ["queued", "cancel", "cancelled"]
"""The events of a call that was cancelled before a worker claimed it."""


@contextmanager
def held_database(stack: Stack) -> Iterator[Waits]:
    """Block all inserts of requests. Yield a predicate: whether a server waits to insert one."""
    if url := stack.environment.get("MCPSITE_DATABASE"):
        with held_postgresql(url) as waits:
            yield waits
        return
    with closing(sqlite3.connect(stack.data / "mcp.sqlite3", timeout=10, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield lambda server: writes(stack, server)
        holder.execute("ROLLBACK")


def writes(stack: Stack, server: Server) -> bool:
    """Whether a server writes to SQLite or waits for its turn. A server without waiting clients does not write."""
    return str(stack.data / "mcp.sqlite3-turn") in programs.open_files(server.program.pid)


@contextmanager
def held_postgresql(url: str) -> Iterator[Waits]:
    only_on_postgresql()
    import psycopg

    table = "mcp_app_request"
    waiting = f"""SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO {table} (%'"""
    with psycopg.connect(url, autocommit=True) as looker, psycopg.connect(url) as holder:
        holder.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")  # does not block readers

        def waits(server: Server) -> bool:
            found = looker.execute(waiting.encode()).fetchone()
            return found is not None and found[0] > 0

        yield waits


def leave(server: Server, call: Connection) -> None:
    """Disconnect, and wait until the server has noticed."""
    port = call.local_port
    call.close()
    eventually(lambda: not programs.is_connected(server.port, port), "the server has closed the connection, too")
    asked = Connection(server.port)  # answered by the same event loop after it has handled the disconnect
    asked.post(message("server/discover"))
    assert asked.result()["capabilities"]
    asked.close()


def was_stored(stack: Stack, server: Server, call: Connection) -> bool:
    """Whether the call has a row, after the server has finished its writes.

    On SQLite the lock may have blocked the server before the insert: if its last heartbeat is old, it first writes a
    new one. Then the call need not be stored.
    """

    def stored() -> bool:
        return stack.inspector.row(jsonrpc_id=call.request_id) is not None

    if "MCPSITE_DATABASE" not in stack.environment:
        eventually(lambda: stored() or not writes(stack, server), "the server has stored what it was to")
        return stored()
    return stack.row(call) is not None


def assert_cancelled(stack: Stack, call: Connection) -> None:
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.story) == ("cancelled", "disconnect", IN_THE_QUEUE)
    [attempt] = row.attempts
    assert (attempt.outcome, attempt.status_before, attempt.settled) == ("accepted", "queued", True)


def assert_never_runs(stack: Stack, path: Path) -> None:
    """Assert that the call has not run after others have."""
    for number in range(stack.slots):
        after = path.with_name(f"after{number}-{path.name}")
        assert text(stack.call("count", path=str(after)).result()) == "counted"
    assert not path.exists()


def await_quiet(stack: Stack, server: Server) -> None:
    """Make a first call, and wait until all its writes are done."""
    first = stack.call("echo", server=server, text="heard")
    assert text(first.result()) == "heard"
    eventually(lambda: stack.row(first).delivered, "its delivery is noted")


@pytest.mark.fault("A2")
def test_A2_a_client_that_leaves_before_its_call_is_stored_has_nothing_run(stack: Stack, tmp_path: Path) -> None:
    for server in stack.servers:
        path = tmp_path / f"count{server.port}"
        before = stack.ask("requests") + 1
        await_quiet(stack, server)
        with held_database(stack) as waits:
            call = stack.call("count", server=server, path=str(path))
            eventually(partial(waits, server), "the server is to store the call")
            leave(server, call)
            assert stack.ask("requests") == before
        if was_stored(stack, server, call):
            assert_cancelled(stack, call)
        assert_never_runs(stack, path)


@pytest.fixture
def on_redis(tmp_path: Path) -> Iterator[tuple[Stack, own_engines.Engine]]:
    """A site with its rows in SQLite, and a Redis of its own as broker, which a test may freeze."""
    data = tmp_path / "site"
    data.mkdir()
    try:
        with own_engines.redis() as broker, layouts.apart(data, {"MCPSITE_BROKER": broker.url}) as stack:
            yield stack, broker
            broker.thaw()
    except ServicesMissingError as error:
        missing(f"NO REDIS OF ITS OWN, no frozen broker was left: {error}")


def leave_unpublished(stack: Stack, server: Server, path: Path) -> None:
    """Make a call and disconnect when it is stored. It is cancelled while the broker is blocked."""
    call = stack.call("count", server=server, path=str(path))
    assert stack.row(call).story == ["queued"]
    leave(server, call)
    assert_cancelled(stack, call)


@pytest.mark.fault("A3")
@pytest.mark.engines
def test_A3_a_client_that_leaves_while_a_broker_takes_no_message_has_nothing_run(
    on_redis: tuple[Stack, own_engines.Engine], tmp_path: Path
) -> None:
    stack, broker = on_redis
    [server] = stack.servers
    assert text(stack.call("echo", text="awake").result()) == "awake"
    broker.freeze()
    leave_unpublished(stack, server, tmp_path / "count")
    broker.thaw()
    assert_never_runs(stack, tmp_path / "count")


@contextmanager
def held_folder(stack: Stack) -> Iterator[None]:
    """Block the first message of a server: before it is written to the broker's folder, its queue must be bound."""
    lock = os.open(stack.data / "broker" / "exchanges" / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@pytest.mark.fault("A3")
@pytest.mark.parametrize("running_stack", ["embedded"], indirect=True)
def test_A3_a_client_that_leaves_before_its_message_is_in_the_folder_has_nothing_run(
    stack: Stack, tmp_path: Path
) -> None:
    server = stack.start_embedded("--no-worker")
    try:
        with held_folder(stack):
            leave_unpublished(stack, server, tmp_path / "count")
        assert_never_runs(stack, tmp_path / "count")
    finally:
        server.stop()
