"""Disconnects on workers whose tools run in threads, where some tools cannot be stopped."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance import outages
from tests.acceptance.situations import COOPERATIVE, INTERRUPT, KILL, LONG, RUNNING, STEP, Situation
from tests.acceptance.test_disconnect import assert_runs_once, assert_stopped
from tests.acceptance.test_endings import assert_told_lost
from tests.support.site import layouts, programs
from tests.support.site.inspector import Row
from tests.support.site.legacy_wire import Client, events
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.stack import Stack
from tests.support.site.wire import BOTH, JSON, Connection, text
from tests.support.waiting import eventually

BRIEF: Final = 2.5
"""Duration in seconds of a tool that cannot be stopped: longer than its hard grace and a query of its row."""


@dataclass(frozen=True)
class Owed:
    """The end of a call in a thread after a disconnect."""

    stage: int
    unstoppable: bool = False
    """Whether its row is marked unstoppable after its hard grace, and it ends by itself."""

    @property
    def seconds(self) -> float:
        return BRIEF if self.unstoppable else LONG


OWED: Final = {
    "async": Owed(COOPERATIVE),
    "blocking": Owed(INTERRUPT),
    "swallowing_everything": Owed(INTERRUPT, unstoppable=True),
    "with_grandchildren": Owed(KILL),
    "with_a_finally": Owed(INTERRUPT, unstoppable=True),
    "cooperative": Owed(COOPERATIVE),
    "in_a_transaction": Owed(INTERRUPT, unstoppable=True),
}
HOLDING: Final = "blocked_in_c"
"""Blocks every thread of its process, also the thread that would stop it. It has a test of its own."""


@pytest.fixture(scope="module", params=["embedded", pytest.param("engines", marks=pytest.mark.engines)])
def running_stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    data = tmp_path_factory.mktemp(f"{request.param}-threads")
    with ExitStack() as exits:
        if request.param == "embedded":
            yield exits.enter_context(layouts.embedded(data, pool="threads"))
            return
        try:
            environment = exits.enter_context(own_services())
        except ServicesMissingError as error:
            missing(f"NO PostgreSQL AND Redis: {error}")
        yield exits.enter_context(layouts.engines(data, environment, pool="threads"))


def situation(name: str) -> Situation:
    [found] = [each for each in RUNNING if each.name == name]
    return found


def given_up(stack: Stack, call: Connection) -> Row:
    """Wait until a call's row is marked unstoppable, and return it."""

    def found() -> Row | None:
        row = stack.row(call)
        assert not row.ended, row
        return row if row.unstoppable else None

    row = eventually(found, "it is called unstoppable")
    assert row is not None
    return row


def test_every_situation_has_what_is_owed_in_threads() -> None:
    assert {each.name for each in RUNNING} == {*OWED, HOLDING}


@pytest.mark.fault("A5", "A6", "A7", "A9", "H1")
@pytest.mark.parametrize("name", OWED)
def test_disconnect_stops_a_tool_in_a_thread_or_its_row_says_that_it_runs_on(
    stack: Stack, name: str, steps: Path
) -> None:
    owed, doing = OWED[name], situation(name)
    commits = stack.ask("commits")
    call = stack.call(doing.tool, **doing.arguments(steps, owed.seconds))
    row = doing.await_begun(stack, call, steps)
    call.close()
    if owed.unstoppable:
        row = given_up(stack, call)
        assert (row.status, row.cancel_cause, row.finished_at) == ("running", "disconnect", None)
        assert [attempt.settled for attempt in row.attempts] == [False]
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.stage, row.result) == ("cancelled", "disconnect", owed.stage, None)
    assert ("unstoppable" in row.stages) == owed.unstoppable
    [attempt] = row.attempts
    assert (attempt.outcome, attempt.settled, attempt.status_after) == ("accepted", True, "cancelled")
    if doing.writes_steps:
        assert_stopped(row, steps)
    if doing.leaves:
        assert steps.read_text() == doing.leaves
    assert stack.ask("commits") == commits
    assert not stack.ask("is locked")
    assert not programs.marked(f"MCP_REQUEST={row.id}")
    assert_runs_once(stack, steps.with_name("count"))


@pytest.mark.fault("A8")
def test_A8_a_tool_that_holds_the_interpreter_holds_its_worker_and_is_never_called_stopped_before(
    stack: Stack, steps: Path
) -> None:
    doing = situation(HOLDING)
    call = stack.call(doing.tool, **doing.arguments(steps, 1.5))
    began = stack.running(call)
    call.close()
    row = stack.ended(call)
    assert row.finished_at is not None
    assert row.status in ("cancelled", "completed")
    assert {attempt.outcome for attempt in row.attempts} == {"too_late" if row.status == "completed" else "accepted"}
    assert row.ran_for is not None
    assert row.ran_for >= 1.5
    assert row.worker == began.worker
    assert_runs_once(stack, steps.with_name("count"))


@pytest.mark.fault("A7")
@pytest.mark.parametrize("accept", [BOTH, JSON], ids=["stream", "json"])
def test_A7_a_client_is_told_that_its_call_could_not_be_stopped(stack: Stack, accept: str, steps: Path) -> None:
    doing = situation("swallowing_everything")
    call = stack.call(doing.tool, accept=accept, **doing.arguments(steps, 2 * BRIEF))
    row = doing.await_begun(stack, call, steps)
    assert stack.ask("cancel", request_id=row.id, reason="wrong file") == "accepted"
    result = call.result()
    assert result["isError"] is True
    assert all(fact in text(result) for fact in ("administrator", "could not be stopped", "wrong file"))
    row = given_up(stack, call)
    assert [attempt.settled for attempt in row.attempts] == [False]
    eventually(lambda: stack.row(call).delivered, "that the answer is noted")
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.result) == ("cancelled", "admin", None)
    assert text(row.partial_result).endswith(" steps")


@pytest.mark.fault("A7")
def test_A7_an_older_client_is_told_once_and_may_come_back_for_nothing_more(stack: Stack, steps: Path) -> None:
    client = Client.opened(stack, stack.servers[0])
    doing = situation("swallowing_everything")
    call = client.call(doing.tool, stack.servers[0], **doing.arguments(steps, 2 * BRIEF))
    row = doing.await_begun(stack, call, steps)
    stack.ask("cancel", request_id=row.id, reason="")
    told = [event for event in events(call) if event and event.message]
    assert told[-1].message is not None
    assert "could not be stopped" in text(told[-1].message["result"])
    again = client.get(stack.servers[0], told[-1].id or "")
    assert [event for event in events(again) if event and event.message] == []
    assert stack.ended(call).status == "cancelled"
    assert client.delete(stack.servers[0]) == 200


@pytest.mark.fault("H2")
def test_H2_no_worker_and_nothing_that_a_tool_starts_holds_a_socket_of_the_server(stack: Stack, steps: Path) -> None:
    spawning = situation("with_grandchildren")
    call = stack.call(spawning.tool, **spawning.arguments(steps))
    spawning.await_begun(stack, call, steps)
    others = programs.processes_of(stack.data) - {server.program.pid for server in stack.servers}
    others -= {stack.inspector.pid}
    assert len(others - set(stack.workers().values())) >= 2
    sockets = set().union(*(programs.inodes_of_port(server.port) for server in stack.servers))
    assert sockets
    for pid in others:
        assert not sockets & programs.socket_inodes(pid), programs.command_line(pid)


@pytest.mark.fault("C2")
def test_C2_a_killed_worker_loses_the_calls_in_its_threads(stack: Stack, steps: Path) -> None:
    call = stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    row = stack.running(call)
    eventually(steps.exists, "it takes a step")
    os.kill(stack.workers()[str(row.worker)], signal.SIGKILL)
    result = call.result()
    assert result["isError"] is True
    assert_told_lost(text(result))
    row = stack.ended(call)
    assert row.status == "lost"
    stack.restore_workers()
    assert_stopped(row, steps)


@pytest.mark.fault("C5")
def test_C5_sigterm_of_the_whole_site_ends_what_cannot_be_stopped(tmp_path: Path) -> None:
    with layouts.embedded(tmp_path, pool="threads") as site:
        steps = tmp_path / "steps"
        doing = situation("swallowing_everything")
        call = site.call(doing.tool, **doing.arguments(steps))
        doing.await_begun(site, call, steps)
        [server] = site.servers
        server.program.signal(signal.SIGTERM)
        result = call.result()
        assert result["isError"] is True
        assert server.program.wait(60) == 0
        written = steps.read_text()
        row = site.ended(call)
        assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "shutdown", KILL)
        assert programs.processes_of(tmp_path) == {site.inspector.pid}
        assert steps.read_text() == written


@pytest.mark.nightly
@pytest.mark.engines
@pytest.mark.fault("D2")
def test_D2_a_result_that_a_thread_cannot_store_for_too_long_is_lost_and_its_worker_goes_on(tmp_path: Path) -> None:
    with outages.site(tmp_path, "redis", pool="threads") as site:
        stack, before = site.stack, site.processes
        ending = stack.call("sleep_sync", seconds=1.0, path=str(tmp_path / "ending"), step=STEP)
        staying = stack.call("sleep_sync", seconds=LONG, path=str(tmp_path / "staying"), step=STEP)
        for call in (ending, staying):
            stack.running(call, 0.2)
        site.database.stop()
        eventually(lambda: "not be stored in time" in site.log(), "it gives up", 4 * outages.ENDING_TIMEOUT)
        site.database.start()
        row = stack.ended(ending, outages.BACK_IN)
        assert (row.status, row.story) == ("lost", ["queued", "running", "lost"])
        assert_told_lost(text(ending.result()))
        staying.close()
        row = stack.ended(staying)
        assert (row.status, row.cancel_cause) == ("cancelled", "disconnect")
        for server in stack.servers:
            assert text(site.echo(server).result()) == "here"
        assert site.processes == before
