"""Helpers for tests of the threads pool: the number of slots, code to run, and waiting for unstoppable calls."""

from tests.execution import driver
from tests.execution.site import Site, eventually

SLOTS = 4
ASLEEP = """
    open(READY, "w").close()
    time.sleep({seconds})
    answer = "whole"
"""
SPINNING = """
    open(READY, "w").close()
    try:
        while True:
            sum(range(100))
    finally:
        ctx.partial_result = "cleaned"
"""


def given_up(site: Site, request_id: str) -> dict[str, object]:
    """Wait until the row is marked as unstoppable where it runs, and return it."""

    def found() -> dict[str, object] | None:
        row = site.ask(driver.row, request_id)
        assert row["status"] == "running", row
        return row if (row["error"] or {}).get("cause") == "unstoppable" else None

    return dict(eventually(found, "that it was given up"))
