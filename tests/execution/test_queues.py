"""A queue that an administrator names while the worker runs."""

from tests.execution import driver
from tests.execution.site import Site


def test_a_running_worker_begins_to_consume_the_queue_that_a_tool_is_given(one_slot: Site) -> None:
    waiting = one_slot.submit("pid", queue="brand-new")
    one_slot.ask(driver.change_tool, "pid", queue="brand-new")
    assert one_slot.ended(waiting, 30)["status"] == "completed"
    assert one_slot.call("pid", queue="brand-new")["status"] == "completed"
    assert one_slot.call("pid")["status"] == "completed"
