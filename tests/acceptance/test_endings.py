"""Calls that end by an administrator, a deadline, the death of a worker or the end of a server.

Their clients receive an error result.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.situations import COOPERATIVE, INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_runs_once, assert_stopped
from tests.support.site import programs
from tests.support.site.inspector import ROOT, Attempt, Row
from tests.support.site.layouts import embedded
from tests.support.site.stack import MANAGE, SETTINGS, SLOTS_OF_A_WORKER, Stack
from tests.support.site.wire import BOTH, JSON, Connection, message, text
from tests.support.waiting import eventually

LOST_IN = 10.0
"""Seconds: `LOST_AFTER` of the settings, and some more."""
TOLD_IN = 2.0
"""Promised are 0.5 s; this also holds on a busy machine. Celery alone needs up to 5 s to notice a dead process."""


def commence(stack: Stack, steps: Path, tool: str = "sleep_sync", *, accept: str = BOTH) -> Connection:
    call = stack.call(tool, accept=accept, seconds=LONG, path=str(steps), step=STEP)
    stack.running(call)
    eventually(steps.exists, f"{tool} takes a step")
    return call


def error_text(call: Connection) -> str:
    result = call.result()
    assert result["isError"] is True
    return text(result)


def assert_told_lost(told: str) -> None:
    """Check that the client reads that its call was lost and did not run again."""
    assert all(fact in told for fact in ("worker process", "lost", "not run again"))


def accepted(row: Row) -> Attempt:
    """Return the one accepted attempt. Others may be duplicates, because several processes supervise."""
    [attempt] = [attempt for attempt in row.attempts if attempt.outcome == "accepted"]
    assert {other.outcome for other in row.attempts} <= {"accepted", "duplicate"}
    assert attempt.latency_ms is not None
    assert attempt.latency_ms >= 0
    return attempt


@pytest.mark.broker("stream")
@pytest.mark.parametrize("accept", [BOTH, JSON], ids=["stream", "json"])
def test_cancel_from_the_command_line_stops_the_call_and_tells_the_client_why(
    stack: Stack, accept: str, steps: Path
) -> None:
    call = commence(stack, steps, accept=accept)
    row = stack.row(call)
    command = [*MANAGE, "mcp", "cancel", row.id, "--reason", "wrong file", "--settings", SETTINGS]
    done = subprocess.run(command, cwd=ROOT, env=stack.environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    told = error_text(call)
    assert all(fact in told for fact in ("cancelled", "administrator", "wrong file"))
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.cancel_reason, row.stage) == (
        *("cancelled", "admin", "wrong file"),
        INTERRUPT,
    )
    assert accepted(row).actor.startswith("command line: ")
    assert_stopped(row, steps)


@pytest.mark.fault("A14")
@pytest.mark.broker
@pytest.mark.parametrize(("tool", "stage"), [("sleep", COOPERATIVE), ("sleep_sync", INTERRUPT)])
def test_a_call_past_its_time_limit_is_stopped(stack: Stack, tool: str, stage: int, steps: Path) -> None:
    with stack.limited(tool, time_limit=0.5):
        call = commence(stack, steps, tool)
        told = error_text(call)
        assert all(fact in told for fact in ("stopped", "time limit"))
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "deadline", stage)
    assert accepted(row).actor == "system"
    assert_stopped(row, steps)


@pytest.mark.fault("C1", "I1")
@pytest.mark.broker
def test_a_killed_worker_child_loses_its_call_which_is_not_run_again(stack: Stack, steps: Path) -> None:
    call = commence(stack, steps)
    child = stack.row(call).worker_pid
    assert child is not None
    os.kill(child, signal.SIGKILL)
    killed_at = time.monotonic()
    assert_told_lost(error_text(call))
    assert time.monotonic() - killed_at < TOLD_IN
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.attempts) == ("lost", "", [])
    assert_runs_once(stack, steps.with_name("count"))
    assert_stopped(row, steps)


@pytest.mark.fault("C2")
@pytest.mark.broker
def test_a_killed_worker_loses_its_calls_and_others_go_on(stack: Stack, steps: Path) -> None:
    call = commence(stack, steps)
    spawning = commence(stack, steps.with_name("spawned"), "spawn")
    row = stack.row(call)
    workers = {stack.row(each).worker for each in (call, spawning)}
    for worker in workers:
        os.kill(stack.workers()[str(worker)], signal.SIGKILL)
    for each in (call, spawning):
        assert_told_lost(error_text(each))
        assert stack.ended(each, LOST_IN).status == "lost"
    stack.restore_workers()
    assert_runs_once(stack, steps.with_name("count"))
    assert_stopped(stack.row(call), steps)
    mark = f"MCP_REQUEST={stack.row(spawning).id}"
    eventually(lambda: not programs.marked(mark), "what the lost call had started is gone")
    assert stack.row(call).worker == row.worker


@pytest.mark.fault("C12")
@pytest.mark.broker
def test_calls_of_a_killed_server_are_cancelled(stack: Stack, steps: Path) -> None:
    for server in stack.start_extra_servers():
        path = steps.with_name(f"steps{server.port}")
        call = stack.call("sleep_sync", server=server, seconds=LONG, path=str(path), step=STEP)
        stack.running(call)
        eventually(path.exists, "it takes a step")
        server.program.kill()
        row = stack.ended(call, LOST_IN)
        assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "lost_server", INTERRUPT)
        assert accepted(row).actor == "system"
        assert_stopped(row, path)


@pytest.mark.fault("C13")
@pytest.mark.broker
def test_a_server_that_is_told_to_stop_ends_its_streams_and_its_calls(stack: Stack, steps: Path) -> None:
    for server in stack.start_extra_servers():
        path = steps.with_name(f"steps{server.port}")
        listening = stack.post(message("subscriptions/listen", notifications={"toolsListChanged": True}), server=server)
        assert next(listening.messages())["method"] == "notifications/subscriptions/acknowledged"
        brief = stack.call("progress", server=server, steps=10, delay=0.05)
        long = stack.call("sleep_sync", server=server, seconds=LONG, path=str(path), step=STEP)
        stack.running(brief)
        stack.running(long)
        eventually(path.exists, "it takes a step")
        server.program.signal(signal.SIGTERM)
        assert listening.result()["resultType"] == "complete"
        assert text(brief.result()) == "10 steps"
        assert "shutting down" in error_text(long)
        row = stack.ended(long)
        assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "shutdown", INTERRUPT)
        assert stack.ended(brief).status == "completed"
        assert_stopped(row, path)
        assert server.program.wait() in (0, -signal.SIGTERM), server.program.output()


@pytest.mark.fault("C13")
def test_sigterm_of_the_whole_site_ends_every_call_and_process(tmp_path: Path) -> None:
    with embedded(tmp_path) as site:
        path = tmp_path / "steps"
        running = commence(site, path, "spawn")
        blockers = [site.call("sleep_sync", seconds=LONG, path="/dev/null") for _ in range(SLOTS_OF_A_WORKER - 1)]
        for call in blockers:
            site.running(call)
        queued = site.call("count", path=str(tmp_path / "count"))
        site.row(queued)
        [server] = site.servers
        server.program.signal(signal.SIGTERM)
        for call in (running, queued, *blockers):
            assert "shutting down" in error_text(call)
            row = site.ended(call)
            assert (row.status, row.cancel_cause) == ("cancelled", "shutdown")
        assert server.program.wait() == 0
        assert "Stopped." in server.program.output()
        assert not (tmp_path / "count").exists()
        assert programs.processes_of(tmp_path) == {site.inspector.pid}


def test_a_site_that_was_killed_leaves_no_process_and_its_successor_tells_the_truth(tmp_path: Path) -> None:
    with embedded(tmp_path) as site:
        path = tmp_path / "steps"
        calls = [commence(site, path, "spawn"), commence(site, tmp_path / "more", "sleep_sync")]
        queued = site.call("count", path=str(tmp_path / "count"))
        site.row(queued)
        [server] = site.servers
        server.program.kill()
        eventually(
            lambda: programs.processes_of(tmp_path) == {site.inspector.pid}, "no process is left", within=LOST_IN
        )
        site.serve_from(site.start_embedded())
        for call in calls:
            assert site.ended(call, LOST_IN).status in ("lost", "cancelled")
        assert site.ended(queued, LOST_IN).status == "cancelled"
        assert not (tmp_path / "count").exists()
        assert text(site.call("echo", text="again").result()) == "again"
