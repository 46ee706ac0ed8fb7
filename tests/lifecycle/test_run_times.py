"""A tool is quick once its runs were, for some time; one slow run among many is forgotten, several are not."""

from uuid import uuid4

import pytest

from mcp_app.lifecycle import observation, run_times, transitions
from mcp_app.lifecycle.moved import Watch
from mcp_app.states import Status
from tests.lifecycle import rows

QUICK = 0.02


def runs(tool, *seconds):
    for each in seconds:
        run_times.note(tool, each)


def test_a_tool_that_nobody_has_seen_run_is_not_quick():
    assert run_times.average("dig") > QUICK
    runs("dig", 0.001)
    assert run_times.average("dig") > QUICK


def test_it_is_after_some_quick_runs_and_no_more_after_a_slow_one():
    runs("dig", *[0.001] * 20)
    assert run_times.average("dig") < QUICK
    runs("dig", 1.0)
    assert run_times.average("dig") > QUICK
    runs("dig", *[0.001] * 40)
    assert run_times.average("dig") < QUICK


def test_what_never_ran_says_nothing():
    runs("dig", 0.5)
    before = run_times.average("dig")
    runs("dig", None, None)
    assert run_times.average("dig") == before


@pytest.mark.parametrize("tool", ["dig", "fill"])
def test_runs_are_noted_as_their_ends_are_seen(worker, tool):
    for _ in range(20):
        row = rows.running(worker, tool=tool)
        transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
        observation.observe({row.pk: Watch()})
    assert run_times.average(tool) < run_times.UNKNOWN
    assert run_times.average(f"other-{uuid4()}") == run_times.UNKNOWN
