"""A disconnect stops the client's call in any state, by FIN and by RST, for event streams and for JSON responses."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.situations import HARD_GRACE_MS, KILL, LONG, RUNNING, STEP, Situation
from tests.support.site import programs
from tests.support.site.inspector import Row
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import BOTH, JSON, Connection, text
from tests.support.waiting import eventually

LEAVE: dict[str, Callable[[Connection], None]] = {"FIN": Connection.close, "RST": Connection.reset}
CLOCK_PRECISION = 0.005

by_any_end = pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
in_any_form = pytest.mark.parametrize("accept", [BOTH, JSON], ids=["stream", "json"])


def commence(
    stack: Stack, situation: Situation, steps: Path, accept: str = BOTH, server: Server | None = None
) -> tuple[Connection, Row]:
    """Call the situation's tool and wait until it is in the middle of its work and a stream has begun."""
    call = stack.call(situation.tool, accept=accept, server=server, **situation.arguments(steps))
    if accept == BOTH:
        assert call.is_stream
    return call, situation.await_begun(stack, call, steps)


def assert_cancelled(row: Row, *, cause: str, stage: int, actor: str, reason: str = "") -> None:
    """Assert that the row and its audit have this cause, stage, actor and reason."""
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", cause, stage)
    assert (row.cancel_actor, row.cancel_reason) == (actor, reason)
    assert row.result is None
    assert not row.delivered
    [attempt] = row.attempts
    assert (attempt.outcome, attempt.settled) == ("accepted", True)
    assert (attempt.cause, attempt.actor, attempt.reason, attempt.stage) == (cause, actor, reason, stage)
    assert attempt.status_after == "cancelled"
    assert attempt.latency_ms is not None
    assert attempt.latency_ms >= (HARD_GRACE_MS if stage == KILL else 0)


def assert_stopped(row: Row, steps: Path) -> None:
    """Assert that the work began once, had ended at the row's `finished_at`, and does not go on."""
    written = steps.read_text()
    lines = written.splitlines()
    assert row.finished_at is not None
    assert float(lines[-1].split()[0]) <= row.finished_at + CLOCK_PRECISION
    assert [int(line.split()[1]) for line in lines] == list(range(len(lines)))
    time.sleep(2 * STEP)
    assert steps.read_text() == written


def assert_child_is_fit(stack: Stack, stopped: Row) -> None:
    """Assert that the worker process that ran the stopped call runs another one, or is gone if it was killed."""
    assert stopped.worker_pid is not None
    if stopped.stage == KILL:
        assert not programs.is_alive(stopped.worker_pid)

    def ran_there() -> bool:
        calls = [stack.call("sleep_sync", seconds=STEP, path="/dev/null", step=STEP) for _ in range(stack.slots)]
        assert [text(call.result()) for call in calls] == ["1 steps"] * len(calls)
        return stopped.stage == KILL or stopped.worker_pid in {stack.row(call).worker_pid for call in calls}

    eventually(ran_there, "the child runs another call")


def assert_runs_once(stack: Stack, path: Path) -> None:
    calls = [stack.call("count", path=str(path)) for _ in range(3)]
    assert [text(call.result()) for call in calls] == ["counted"] * 3
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.fault("A5", "A6", "A7", "A8", "H1")
@pytest.mark.broker("FIN", "stream")
@in_any_form
@by_any_end
@pytest.mark.parametrize("situation", RUNNING, ids=lambda situation: situation.name)
def test_disconnect_stops_a_tool(
    stack: Stack, situation: Situation, leave: Callable[[Connection], None], accept: str, steps: Path
) -> None:
    commits = stack.ask("commits")
    call, _ = commence(stack, situation, steps, accept)
    leave(call)
    row = stack.ended(call)
    assert_cancelled(row, cause="disconnect", stage=situation.stage, actor="anonymous")
    assert row.story.count("running") == 1
    assert (row.partial_result is not None) == situation.partial
    if situation.writes_steps:
        assert_stopped(row, steps)
    if situation.leaves:
        assert steps.read_text() == situation.leaves
    assert stack.ask("commits") == commits
    assert not stack.ask("is locked")
    assert_child_is_fit(stack, row)
    assert_runs_once(stack, steps.with_name("count"))


@pytest.mark.fault("A4")
@pytest.mark.broker("FIN", "stream")
@in_any_form
@by_any_end
def test_disconnect_while_queued_means_that_the_tool_is_never_called(
    stack: Stack, leave: Callable[[Connection], None], accept: str, steps: Path
) -> None:
    fill_slots(stack)
    call = stack.call("count", accept=accept, path=str(steps))
    if accept == BOTH:
        assert call.is_stream
    assert stack.row(call).status == "queued"
    leave(call)
    row = stack.ended(call)
    assert_cancelled(row, cause="disconnect", stage=0, actor="anonymous")
    assert row.attempts[0].status_before == "queued"
    assert row.story == ["queued", "cancel", "cancelled"]
    stack.settle()
    assert_runs_once(stack, steps.with_name("count"))
    assert not steps.exists()
    assert stack.row(call) == row


def fill_slots(stack: Stack) -> None:
    """Keep every slot of every worker busy until the test leaves its calls."""
    blockers: list[Connection] = []

    def all_busy() -> bool:
        running = [call for call in blockers if stack.row(call).status == "running"]
        if len(running) < stack.slots and len(blockers) < 3 * stack.slots:
            # More calls than slots may be needed, because a busy worker may hold a message that an idle one could run.
            blockers.append(stack.call("sleep_sync", seconds=LONG, path="/dev/null"))
        return len(running) == stack.slots

    eventually(all_busy, "all slots are busy")


@pytest.mark.fault("A9")
def test_a_killed_tools_processes_are_gone(stack: Stack, steps: Path) -> None:
    [spawning] = [situation for situation in RUNNING if situation.tool == "spawn"]
    call, row = commence(stack, spawning, steps)
    mark = f"MCP_REQUEST={row.id}"
    started = programs.marked(mark)
    assert len(started) == 2
    call.close()
    stack.ended(call)
    assert not programs.marked(mark)
    assert not any(map(programs.is_alive, started))


@pytest.mark.fault("A12")
def test_a_half_closed_connection_is_a_disconnect(stack: Stack, steps: Path) -> None:
    [blocking] = [situation for situation in RUNNING if situation.tool == "sleep_sync"]
    call, _ = commence(stack, blocking, steps)
    call.half_close()
    row = stack.ended(call)
    assert_cancelled(row, cause="disconnect", stage=blocking.stage, actor="anonymous")
    assert_stopped(row, steps)


@pytest.mark.fault("A5")
def test_partial_results_of_a_cooperative_tool_are_kept(stack: Stack, steps: Path) -> None:
    [polite] = [situation for situation in RUNNING if situation.tool == "polite"]
    call, _ = commence(stack, polite, steps)
    call.close()
    assert text(stack.ended(call).partial_result).endswith(" polls")


@pytest.mark.fault("H1")
def test_a_row_locked_by_a_stopped_transaction_is_free_at_once(stack: Stack, steps: Path) -> None:
    [locking] = [situation for situation in RUNNING if situation.tool == "transaction"]
    commits = stack.ask("commits")
    call, _ = commence(stack, locking, steps)
    call.close()
    stack.ended(call)
    assert text(stack.call("transaction", seconds=0).result()) == f"{commits + 1} commits"


@pytest.mark.fault("B12")
@pytest.mark.broker
def test_celerys_own_result_of_a_stopped_call_is_revoked(stack: Stack, steps: Path) -> None:
    [blocking] = [situation for situation in RUNNING if situation.tool == "sleep_sync"]
    call, row = commence(stack, blocking, steps)
    call.close()
    eventually(lambda: stack.ask("celery status", task_id=row.id) == "REVOKED", "Celery says REVOKED")


def test_celerys_own_result_of_a_killed_call_is_revoked(stack: Stack, steps: Path) -> None:
    [stubborn] = [situation for situation in RUNNING if situation.tool == "stubborn"]
    call, row = commence(stack, stubborn, steps)
    call.close()
    eventually(lambda: stack.ask("celery status", task_id=row.id) == "REVOKED", "Celery says REVOKED")


@pytest.mark.nightly
def test_celerys_own_result_of_a_call_that_never_ran_is_revoked(stack: Stack, steps: Path) -> None:
    busy = [stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP) for _ in range(stack.slots)]
    for call in busy:
        stack.running(call)
    queued = stack.call("count", path=str(steps.with_name("count")))
    stack.row(queued)
    queued.close()
    row = stack.ended(queued)
    for call in busy:
        call.close()
    eventually(lambda: stack.ask("celery status", task_id=row.id) == "REVOKED", "Celery says REVOKED")
    assert not steps.with_name("count").exists()


@pytest.mark.broker
def test_forty_abandoned_blocking_calls_leave_room_for_a_fast_one(stack: Stack, steps: Path) -> None:
    abandoned = [stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP) for _ in range(40)]
    for call in abandoned:
        stack.row(call)
    for call in abandoned:
        call.close()
    fast = stack.call("echo", text="soon")
    assert stack.ended(fast, within=5).status == "completed"
    assert text(fast.result()) == "soon"
    for call in abandoned:
        row = stack.ended(call)
        assert (row.status, row.cancel_cause) == ("cancelled", "disconnect")


@pytest.mark.fault("A1")
def test_a_body_that_never_comes_leaves_nothing(stack: Stack) -> None:
    before = stack.ask("requests")
    connection = stack.connect()
    connection.send_part(b'{"jsonrpc": "2.0", ', promised=1000)
    connection.reset()
    assert text(stack.call("echo", text="after").result()) == "after"
    assert stack.ask("requests") == before + 1
