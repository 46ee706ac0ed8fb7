"""Behaviour of Celery's prefork pool and of billiard that is not documented, tested in a real pool."""

import json
import subprocess
import sys
from typing import Any

import pytest

TIMER_SECONDS = 5.0
"""The interval at which Celery's own timer detects ended processes."""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """The output of `prefork_program`."""
    program = [sys.executable, "-m", "tests.celery_adapter.prefork_program"]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "log": done.stderr}


def test_the_pool_tells_its_processes(told: dict[str, Any]) -> None:
    """`TaskPool._pool` is billiard's pool, whose own `_pool` is the list of processes."""
    assert told["pids"] == told["of_pool"]
    assert len(told["pids"]) == 2
    assert told["are_children"]


def test_a_process_that_was_killed_is_replaced_by_maintain_pool(told: dict[str, Any]) -> None:
    """`maintain_pool` returns once another process has started."""
    assert told["replaced"]


def test_a_stopped_process_is_marked_by_terminate_job(told: dict[str, Any]) -> None:
    """`terminate_job` sends the given signal, and the end of the process is not logged as an error."""
    assert told["marks"] == [True, True]
    assert told["still_there"]
    assert told["log"].count("exited with 'signal 9") <= 2, "the end of the marked process was taken for an accident"


def test_the_event_loop_finds_the_end_of_a_process_at_once_and_after_it_was_reset(told: dict[str, Any]) -> None:
    assert told["found_after"] < TIMER_SECONDS / 2
    assert told["found_after_reset"] < TIMER_SECONDS / 2
