"""PostgreSQL is stopped, killed, frozen, or ends its connections while calls start, run and are cancelled: D2, D4."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.outages import DATABASE_TIMEOUT, ENDING_TIMEOUT, PATIENT, REFUSED_IN, Site
from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_stopped
from tests.acceptance.test_endings import assert_told_lost
from tests.support.site import programs
from tests.support.site.own_engines import Engine
from tests.support.site.stack import SLOTS_OF_A_WORKER, Server
from tests.support.site.wire import Connection, text
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(PATIENT),
    pytest.mark.parametrize("running_site", ["redis"], indirect=True),
]

AWAY: Final = 4.0
"""Seconds without a database: longer than `LOST_AFTER`, which is 3 s here."""
OUTLASTING: Final = AWAY + 6.0
"""Duration in seconds of a call that still runs after all error responses, on a busy machine too."""
UNAVAILABLE: Final = 503
SETTLED_IN: Final = 30.0

THREADS_OF_A_SERVER: Final = 4 + 4 + 4 + 2 + 8
"""For rows, the broker, authentication, the background and authors' code. Each thread may keep a connection."""
CONNECTIONS_OF_A_CHILD: Final = 3
"""The connections of the tool, the recorder and the watcher."""


def assert_unreachable(call: Connection) -> None:
    assert call.response.status == 503
    assert call.response.headers["Retry-After"] == "1"
    error = call.answer()["error"]
    assert error["code"] == UNAVAILABLE
    assert all(fact in error["message"] for fact in ("database", "try again"))


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.mark.fault("D2")
@pytest.mark.parametrize(
    ("end", "begin_again"),
    [
        pytest.param(Engine.stop, Engine.start, id="stopped"),
        pytest.param(Engine.kill, Engine.start, id="killed", marks=pytest.mark.nightly),
        pytest.param(Engine.freeze, Engine.thaw, id="frozen"),
    ],
)
def test_D2_while_the_database_is_away_calls_go_on_and_new_ones_are_told_so(
    site: Site, end: Callable[[Engine], None], begin_again: Callable[[Engine], None], tmp_path: Path
) -> None:
    stack, before, workers = site.stack, site.processes, site.stack.ask("workers")
    outlasting = stack.call("sleep_sync", seconds=OUTLASTING, path=str(tmp_path / "outlasting"), step=STEP)
    telling = stack.call("progress", steps=round(OUTLASTING / STEP), delay=STEP)
    leaving = stack.call("sleep_sync", seconds=LONG, path=str(tmp_path / "leaving"), step=STEP)
    for call in (outlasting, telling, leaving):
        stack.running(call, 0.2)
        assert call.is_stream
    ending = stack.call("sleep_sync", seconds=AWAY / 2, path=str(tmp_path / "ending"), step=STEP)
    stack.running(ending, 0.2)
    assert ending.is_stream
    end(site.database)
    away_at = time.monotonic()
    leaving.close()
    for server in stack.servers:
        refuse(site, server)
    assert goes_on(tmp_path / "outlasting")
    time.sleep(max(0.0, AWAY - (time.monotonic() - away_at)))
    assert lines(tmp_path / "ending") == round(AWAY / 2 / STEP)
    begin_again(site.database)
    back_at = time.monotonic()
    assert text(ending.result()) == f"{round(AWAY / 2 / STEP)} steps"
    site.measure("a result that waited for the database", time.monotonic() - back_at)
    row = stack.ended(leaving, SETTLED_IN)
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "disconnect", INTERRUPT)
    assert [attempt.outcome for attempt in row.attempts].count("accepted") == 1
    assert_stopped(row, tmp_path / "leaving")
    assert text(telling.result()) == f"{round(OUTLASTING / STEP)} steps"
    assert text(outlasting.result()) == f"{round(OUTLASTING / STEP)} steps"
    for call in (outlasting, ending, telling):
        row = stack.row(call)
        assert row.status == "completed"
        assert row.story.count("running") == 1
    for server in stack.servers:
        assert text(site.echo(server).result()) == "here"
    assert site.processes == before
    assert stack.ask("workers") == workers


def refuse(site: Site, server: Server) -> None:
    """Assert that a call and a list are rejected, while the server answers a request that needs no row."""
    began_at = time.monotonic()
    call, asked = site.echo(server), site.ask("tools/list", server)
    assert site.ask("server/discover", server).result()["capabilities"]
    site.measure("server/discover without a database", time.monotonic() - began_at)
    assert_unreachable(call)
    assert_unreachable(asked)
    took = time.monotonic() - began_at
    site.measure(f"refused without a database, which is waited for {DATABASE_TIMEOUT:g} s", took)
    assert took < REFUSED_IN


def goes_on(steps: Path) -> bool:
    before = lines(steps)
    time.sleep(4 * STEP)
    return lines(steps) > before


@pytest.mark.fault("D2")
def test_D2_a_call_that_was_refused_while_the_database_was_frozen_is_not_carried_out(
    site: Site, tmp_path: Path
) -> None:
    calls = []
    site.database.freeze()
    for number, server in enumerate(site.stack.servers):
        calls.append(site.stack.call("count", server=server, path=str(tmp_path / f"count{number}")))
    for call in calls:
        assert_unreachable(call)
    site.database.thaw()
    site.stack.settle()
    assert text(site.stack.call("count", path=str(tmp_path / "after")).result()) == "counted"
    assert not list(tmp_path.glob("count*"))


@pytest.mark.nightly
@pytest.mark.fault("D2")
def test_D2_a_result_that_cannot_be_stored_for_too_long_is_lost_and_its_client_told(site: Site, steps: Path) -> None:
    stack, before = site.stack, site.processes
    call = stack.call("sleep_sync", seconds=1.0, path=str(steps), step=STEP)
    child = stack.running(call, 0.2).worker_pid
    assert child is not None
    site.database.stop()
    eventually(lambda: not programs.is_alive(child), "its process ends", 4 * ENDING_TIMEOUT)
    site.database.start()
    row = stack.ended(call, SETTLED_IN)
    assert (row.status, row.story) == ("lost", ["queued", "running", "lost"])
    assert_told_lost(text(call.result()))
    for server in stack.servers:
        assert text(site.echo(server).result()) == "here"
    assert site.processes == before


@pytest.mark.nightly
@pytest.mark.fault("D2")
def test_D2_a_worker_that_died_is_found_lost_when_the_database_is_back(site: Site, steps: Path) -> None:
    stack = site.stack
    call = stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    worker = stack.workers()[str(stack.running(call, 0.2).worker)]
    site.database.stop()
    os.kill(worker, signal.SIGKILL)
    time.sleep(AWAY)
    site.database.start()
    assert stack.ended(call, SETTLED_IN).status == "lost"
    assert_stopped(stack.row(call), steps)


@pytest.mark.fault("D4")
def test_D4_connections_that_the_database_ended_are_replaced(site: Site, tmp_path: Path) -> None:
    stack, before, commits = site.stack, site.processes, site.stack.ask("commits")
    for server in stack.servers:
        assert text(site.echo(server).result()) == "here"
    assert stack.ask("end connections") > len(stack.servers)
    for server in stack.servers:
        assert text(site.echo(server).result()) == "here"
    running = [
        stack.call("sleep_sync", seconds=5.0, path=str(tmp_path / f"steps{server.port}"), step=STEP, server=server)
        for server in stack.servers
    ]
    in_transaction = stack.call("transaction", seconds=5.0)
    for call in (*running, in_transaction):
        stack.running(call, 0.2)
    for _ in range(5):
        eventually(lambda: stack.ask("end connections"), "somebody is connected again")
    for call in running:
        assert text(call.result()) == f"{round(5.0 / STEP)} steps"
    assert in_transaction.result()["isError"] is True
    assert stack.row(in_transaction).status == "failed"
    assert not stack.ask("is locked")
    assert stack.ask("commits") == commits
    for server in stack.servers:
        assert text(site.echo(server).result()) == "here"
    assert site.processes == before


@pytest.mark.fault("D4")
@pytest.mark.parametrize("requests", [200, pytest.param(1000, marks=pytest.mark.nightly)])
def test_D4_no_connection_leaks_however_many_requests_there_are(site: Site, requests: int) -> None:
    stack = site.stack
    most = len(stack.servers) * THREADS_OF_A_SERVER
    most += stack.expected_workers * (1 + SLOTS_OF_A_WORKER * CONNECTIONS_OF_A_CHILD)
    storm(site, requests // 2)
    between = stack.ask("connections")
    storm(site, requests // 2)
    after = stack.ask("connections")
    assert after <= most
    site.measured[f"{site.kind}: connections after {requests} calls, {most} allowed, {between} after half"].append(
        after
    )
    eventually(lambda: stack.ask("connections") <= between + len(stack.servers), "no connection is left of the storm")


def storm(site: Site, requests: int) -> None:
    """Make calls at both servers, 20 at a time, and disconnect every fourth."""
    for _ in range(requests // 20):
        calls = [site.stack.call("echo", text="x") for _ in range(20)]
        for call in calls[::4]:
            call.close()
        for call in calls:
            if call not in calls[::4]:
                assert text(call.result()) == "x"
                call.close()
