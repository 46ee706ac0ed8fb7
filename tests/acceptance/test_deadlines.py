"""A caller can shorten the time limit of its call. The call is then stopped in any state, with an error result."""

from pathlib import Path
from typing import Any

import pytest

from mcp_app.protocol.metadata import TIME_LIMIT
from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_stopped
from tests.acceptance.test_endings import accepted, commence, error_text
from tests.acceptance.test_tasks import KNOWS, ended
from tests.support.site.legacy_wire import Client
from tests.support.site.stack import Stack
from tests.support.site.wire import Connection, message

GIVEN = {TIME_LIMIT: 1500}


def limited(stack: Stack, tool: str, meta: dict[str, Any], **arguments: Any) -> Connection:
    return stack.post(message("tools/call", meta={**GIVEN, **meta}, name=tool, arguments=arguments))


def assert_limit_told(told: str) -> None:
    """Check that the client reads that its own time limit has passed."""
    assert all(fact in told for fact in ("stopped", "caller's time limit", " 1.5 s"))


@pytest.mark.fault("A14")
def test_A14_a_running_call_is_stopped_when_its_callers_limit_has_passed(stack: Stack, steps: Path) -> None:
    call = limited(stack, "sleep_sync", {}, seconds=LONG, path=str(steps), step=STEP)
    assert_limit_told(error_text(call))
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "deadline", INTERRUPT)
    assert accepted(row).actor == "system"
    assert_stopped(row, steps)


def test_a_session_can_shorten_its_calls_too(stack: Stack, steps: Path) -> None:
    arguments = {"seconds": LONG, "path": str(steps), "step": STEP}
    call = Client.opened(stack).request("tools/call", name="sleep_sync", arguments=arguments, _meta=GIVEN)
    assert_limit_told(error_text(call))
    assert_stopped(stack.ended(call), steps)


def test_a_task_is_stopped_when_its_callers_limit_has_passed(stack: Stack, steps: Path) -> None:
    call = limited(stack, "step_as_task", KNOWS, seconds=LONG, path=str(steps), step=STEP)
    task = ended(stack, call.result()["taskId"])
    assert task["status"] == "cancelled"
    assert_limit_told(task["statusMessage"])
    assert_stopped(stack.ended(call), steps)


@pytest.mark.fault("C6")
def test_C6_a_call_that_no_worker_took_in_its_callers_time_never_runs(stack: Stack, tmp_path: Path) -> None:
    blockers = [commence(stack, tmp_path / f"steps{number}") for number in range(stack.slots)]
    call = limited(stack, "count", {}, path=str(tmp_path / "count"))
    assert_limit_told(error_text(call))
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.story) == ("cancelled", "deadline", ["queued", "cancel", "cancelled"])
    for blocker in blockers:
        blocker.close()
        stack.ended(blocker)
    assert not (tmp_path / "count").exists()


def test_a_limit_that_is_none_is_refused_and_leaves_no_row(stack: Stack) -> None:
    before = stack.ask("requests")
    call = stack.post(message("tools/call", meta={TIME_LIMIT: "soon"}, name="echo", arguments={"text": "x"}))
    error = call.answer()["error"]
    assert (call.response.status, error["code"]) == (400, -32602)
    assert TIME_LIMIT in error["message"]
    assert stack.ask("requests") == before
