"""A tool is stopped by its row alone. Its worker needs no message (fault B11)."""

import pytest

from tests.execution import driver
from tests.execution.site import begin_code

SLEEPER = """
    open(READY, "w").close()
    time.sleep(30)
"""
STUBBORN = """
    open(READY, "w").close()
    while True:
        try:
            time.sleep(30)
        except BaseException:
            pass
"""


@pytest.mark.fault("B11")
@pytest.mark.parametrize(
    ("code", "policy", "stage"),
    [(SLEEPER, "interrupt", "interrupt"), (STUBBORN, "kill", "kill")],
    ids=["interrupted", "killed"],
)
def test_B11_a_cancellation_that_no_broker_takes_stops_the_tool_by_its_row(one_slot, code, policy, stage):
    request_id = begin_code(one_slot, code, cancel_policy=policy)
    outcome, logged = one_slot.ask(driver.cancel_without_broker, request_id, "enough")
    assert outcome == "accepted"
    assert any(all(fact in line for fact in ("broker", "not take", "mcp_cancel", request_id)) for line in logged)
    row = one_slot.ended(request_id)
    assert (row["status"], row["cancel_reason"], row["stage"]) == ("cancelled", "enough", stage)
    [attempt] = one_slot.ask(driver.attempts, request_id)
    assert (attempt["outcome"], attempt["status_after"]) == ("accepted", "cancelled")
    assert one_slot.call("python", {"code": "answer = 1"})["status"] == "completed"
