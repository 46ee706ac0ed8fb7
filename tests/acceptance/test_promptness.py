"""A disconnect reaches a call soon, and an interrupt waits for the grace period (faults A5, A6, H5).

The measured times are logged (`--log-cli-level=INFO`). The asserted bounds also hold on a busy machine.
"""

import logging
import time
from pathlib import Path
from statistics import median

import pytest

from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_cancelled, assert_stopped
from tests.support.site.legacy_wire import Client
from tests.support.site.stack import Stack
from tests.support.site.wire import BOTH, JSON, Connection
from tests.support.waiting import eventually

TIMES = 7
AT_MOST = 1.0
logger = logging.getLogger(__name__)


def last_step(steps: Path) -> float:
    return float(steps.read_text().splitlines()[-1].split()[0])


@pytest.mark.fault("A5")
@pytest.mark.parametrize("accept", [BOTH, JSON], ids=["stream", "json"])
def test_A5_a_cooperative_tool_is_told_within_a_second(stack: Stack, accept: str, steps: Path) -> None:
    took = []
    for number in range(TIMES):
        told = steps.with_name(f"told-{number}")
        call = stack.call("polite", accept=accept, seconds=LONG, path=str(told))
        stack.running(call, 0.2)
        left_at = time.time()
        call.close()
        eventually(told.exists, "ctx.cancelled is true")
        took.append(told.stat().st_mtime - left_at)
        assert stack.ended(call).status == "cancelled"
    logger.info("A5: told after %s ms", [round(each * 1000, 1) for each in took])
    assert median(took) <= AT_MOST


@pytest.mark.fault("A6")
def test_A6_a_tool_that_does_not_look_is_interrupted_after_its_grace_and_not_before(stack: Stack, steps: Path) -> None:
    with stack.limited("sleep_sync", cooperative_grace=1.0):
        call = stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
        stack.running(call)
        eventually(steps.exists, "it takes a step")
        left_at = time.time()
        call.close()
        row = stack.ended(call)
    assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
    assert_stopped(row, steps)
    [attempt] = row.attempts
    assert attempt.latency_ms is not None
    assert attempt.latency_ms >= 1000
    assert last_step(steps) >= left_at + 1.0 - 5 * STEP, "it was not given its grace"


@pytest.mark.fault("H5")
def test_H5_an_older_client_without_a_session_is_heard_to_leave_as_soon_as_a_stream(stack: Stack, steps: Path) -> None:
    older = Client(stack)

    def as_json(**arguments: object) -> Connection:
        return older.call("sleep_sync", stack.servers[0], accept=JSON, **arguments)

    def as_stream(**arguments: object) -> Connection:
        return stack.call("sleep_sync", accept=BOTH, server=stack.servers[0], **arguments)

    medians = {}
    for form in (as_json, as_stream):
        took = []
        for number in range(TIMES):
            path = steps.with_name(f"{form.__name__}-{number}")
            call = form(seconds=LONG, path=str(path), step=STEP)
            stack.running(call, 0.2)
            eventually(path.exists, "it takes a step")
            left_at = time.time()
            call.close()
            row = stack.ended(call)
            assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
            assert row.finished_at is not None
            took.append(row.finished_at - left_at)
        medians[form.__name__] = median(took)
    logger.info("H5: stopped after %s ms", {name: round(value * 1000, 1) for name, value in medians.items()})
    assert max(medians.values()) <= AT_MOST
