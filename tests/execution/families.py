"""Helpers for tests of tools that start others: calls, children that take steps, and checks that they have stopped."""

import textwrap
import time

from tests.execution import driver
from tests.execution.site import eventually

STEP = 0.02
STEPPING = f"""
n = 0
while True:
    with open({{path!r}}, "a") as file:
        file.write(f"{{{{n}}}}\\n")
    n += 1
    time.sleep({STEP})
"""


def python(site, code, tool="python", **changes):
    return site.submit(tool, {"code": textwrap.dedent(code)}, **changes)


def answer(site, code, tool="python", **changes):
    """Return the value that a tool's code stores as its answer."""
    ended = site.ended(python(site, code, tool, **changes))
    assert ended["status"] == "completed", ended
    result = ended["result"]
    return result.get("structuredContent", result["content"][0].get("text"))


def words(ended):
    return ended["result"]["content"][0]["text"]


def stepping(path):
    """Return code that takes steps until it is stopped."""
    return STEPPING.format(path=str(path))


def assert_still(path):
    before = path.read_text()
    time.sleep(5 * STEP)
    assert path.read_text() == before


def child_of(site, request_id):
    def one():
        return next(iter(site.ask(driver.children, request_id)), None)

    return eventually(one, "a child")


def running_child(site, request_id, path):
    row = child_of(site, request_id)
    eventually(path.exists, "the child's first step")
    return str(row["id"])


def assert_stopped_with(site, child, path, status="cancelled"):
    row = site.ended(child)
    assert (row["status"], row["cancel_cause"]) == (status, "parent")
    assert_still(path)
    [attempt] = site.ask(driver.attempts, child)
    assert (attempt["cause"], attempt["outcome"], attempt["part_of"]) == (
        "parent",
        "accepted",
        f"started by {row['parent']}",
    )
    return row
