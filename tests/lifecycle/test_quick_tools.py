"""A tool is quick once its runs were, for some time; one slow run among many is forgotten, several are not."""

from uuid import uuid4

import pytest

from mcp_app.lifecycle import observation, quick_tools, transitions
from mcp_app.lifecycle.moved import Watch
from mcp_app.states import Status
from tests.lifecycle import rows


def runs(tool, *seconds):
    for each in seconds:
        quick_tools.note(tool, each)


def test_a_tool_that_nobody_has_seen_run_is_not():
    assert not quick_tools.is_quick("dig")
    runs("dig", 0.001)
    assert not quick_tools.is_quick("dig")


def test_it_is_after_some_quick_runs_and_no_more_after_a_slow_one():
    runs("dig", *[0.001] * 20)
    assert quick_tools.is_quick("dig")
    runs("dig", 1.0)
    assert not quick_tools.is_quick("dig")
    runs("dig", *[0.001] * 40)
    assert quick_tools.is_quick("dig")


def test_what_never_ran_says_nothing():
    runs("dig", *[0.001] * 20, *[None] * 5)
    assert quick_tools.is_quick("dig")


@pytest.mark.parametrize("tool", ["dig", "fill"])
def test_runs_are_noted_as_their_ends_are_seen(worker, tool):
    for _ in range(20):
        row = rows.running(worker, tool=tool)
        transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
        observation.observe({row.pk: Watch()})
    assert quick_tools.is_quick(tool)
    assert not quick_tools.is_quick(f"other-{uuid4()}")
