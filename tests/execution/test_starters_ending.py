"""A call that a tool started ends no later than the tool, however the tool ends."""

import os
import random
import signal
import textwrap
import time

import pytest

from tests.execution import driver
from tests.execution.families import (
    answer,
    assert_stopped_with,
    child_of,
    python,
    running_child,
    stepping,
    words,
)
from tests.execution.site import eventually

pytestmark = pytest.mark.acceptance

SWALLOWING = """
call = ctx.start("python", code={steps!r})
while True:
    try:
        call.result()
    except BaseException:
        pass
"""
WAITING = {
    "result": ("python", "ctx.start('python', code={steps!r}).result()"),
    "await": ("python_async", "async def main():\n    await ctx.start('python', code={steps!r})"),
    "swallowing": ("python", SWALLOWING),
}
ENDS = {"completed": "answer = 'done'", "failed": "raise KeyError", "input_required": "ctx.roots()"}


def test_a_coroutine_gives_up_waiting_and_its_call_goes_with_its_end(family, tmp_path):
    path = tmp_path / "steps"
    code = f"""
        async def main():
            call = ctx.start("python", code={stepping(path)!r})
            while not os.path.exists({str(path)!r}):
                await asyncio.sleep(0.01)
            try:
                async with asyncio.timeout(0.1):
                    await call
            except TimeoutError:
                return "enough"
    """
    request_id = python(family, code, "python_async")
    assert words(family.ended(request_id)) == "enough"
    assert_stopped_with(family, str(child_of(family, request_id)["id"]), path)


@pytest.mark.parametrize("how", WAITING)
def test_with_a_starter_that_is_cancelled_go_its_children(family, tmp_path, how):
    path = tmp_path / "steps"
    tool, code = WAITING[how]
    request_id = python(family, code.format(steps=stepping(path)), tool, cancel_policy="kill", cooperative_grace=0.4)
    child = running_child(family, request_id, path)
    assert family.cancel(request_id) == "accepted"
    assert_stopped_with(family, child, path)
    ended = family.ended(request_id)
    assert (ended["status"], ended["stage"]) == ("cancelled", "kill" if how == "swallowing" else "cooperative")
    assert ended["error"] is None


def test_a_grandchild_goes_too(family, tmp_path):
    path = tmp_path / "steps"
    middle = f"ctx.start('python', code={stepping(path)!r}).result()"
    request_id = python(family, f"ctx.start('python', code={middle!r}).result()")
    child = child_of(family, request_id)
    grandchild = running_child(family, str(child["id"]), path)
    family.cancel(request_id)
    assert_stopped_with(family, grandchild, path)
    assert family.ended(str(child["id"]))["status"] == "cancelled"


@pytest.mark.parametrize("how", ENDS)
def test_a_run_that_ends_without_waiting_takes_its_children_with_it(family, tmp_path, how):
    path = tmp_path / "steps"
    code = f"""
        ctx.start("python", code={stepping(path)!r})
        while not os.path.exists({str(path)!r}):
            ctx.sleep(0.01)
        {ENDS[how]}
    """
    request_id = python(family, code, client_capabilities={"roots": {}})
    child = running_child(family, request_id, path)
    row = assert_stopped_with(family, child, path)
    assert row["cancel_actor"] == "system"
    eventually(lambda: family.ask(driver.row, request_id)["status"] == how, how)
    family.cancel(request_id)


def test_a_starter_whose_process_is_killed_is_lost_and_takes_its_children_with_it(family, tmp_path):
    path = tmp_path / "steps"
    request_id = python(family, f"ctx.start('python', code={stepping(path)!r}).result()")
    child = running_child(family, request_id, path)
    os.kill(family.ask(driver.row, request_id)["worker_pid"], signal.SIGKILL)
    assert family.ended(request_id)["status"] == "lost"
    assert_stopped_with(family, child, path)


def test_a_shielded_starter_is_told_of_its_childs_end_and_keeps_what_it_has(family, tmp_path):
    path = tmp_path / "steps"
    code = f"""
        from mcp_app.tools import CallFailed, ToolError
        with ctx.shield():
            call = ctx.start("python", code={stepping(path)!r})
            try:
                call.result()
            except CallFailed as error:
                first = error.status
            try:
                ctx.start("pid")
            except ToolError as error:
                ctx.partial_result = [first, str(error)]
        answer = "not cancelled"
    """
    request_id = python(family, code)
    child = running_child(family, request_id, path)
    family.cancel(request_id)
    ended = family.ended(request_id)
    assert ended["status"] == "cancelled"
    kept = ended["partial_result"]["structuredContent"]
    assert kept == ["cancelled", "pid was not started: the call that would start it is being stopped."]
    assert_stopped_with(family, child, path)


def test_a_childs_own_shield_and_partial_result_hold(family, tmp_path):
    ready, done = tmp_path / "ready", tmp_path / "done"
    shielded = textwrap.dedent(f"""
        with ctx.shield():
            open({str(ready)!r}, "w").close()
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                time.sleep(0.01)
            ctx.partial_result = "whole"
            open({str(done)!r}, "w").close()
        time.sleep(60)
    """)
    request_id = python(family, f"ctx.start('python', code={shielded!r}).result()")
    child = running_child(family, request_id, ready)
    family.cancel(request_id)
    row = family.ended(child)
    assert done.exists()
    assert (row["status"], row["partial_result"]["content"][0]["text"]) == ("cancelled", "whole")


def test_no_child_is_left_whenever_its_starter_is_stopped(family, tmp_path):
    random.seed(7)
    for turn in range(6):
        folder = tmp_path / str(turn)
        folder.mkdir()
        code = f"""
            n = 0
            while True:
                ctx.start("brief", path={str(folder)!r} + f"/{{n}}", name="x", seconds=30)
                n += 1
        """
        request_id = python(family, code)
        child_of(family, request_id)
        time.sleep(random.random() * 0.1)
        family.cancel(request_id)
        ended = family.ended(request_id)
        assert ended["status"] == "cancelled", ended
        for child in family.ask(driver.children, request_id):
            row = family.ended(str(child["id"]))
            assert (row["status"], row["cancel_cause"]) == ("cancelled", "parent")
    assert answer(family, "answer = 'fit'") == "fit"
