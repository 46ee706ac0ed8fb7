"""Jobs reach the processes of Celery's own pool without a turn of its event loop in between."""

import json
import subprocess
import sys
from typing import Any

from tests.execution.job_writing import JOBS


def told(strategy: str, *patience: str) -> Any:
    command = [sys.executable, "-m", "tests.execution.job_writing", strategy, *patience]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_a_job_is_with_a_process_that_is_free_when_it_was_taken_in_and_the_others_follow() -> None:
    found = told("fair")
    assert found["left_of_one"] == 0
    assert found["left_of_many"] == JOBS - 2
    assert (found["done"], found["processes"]) == (1 + JOBS, 2)
    assert (found["watched"], found["celerys_own"]) == (0, False)


def test_a_pool_whose_busy_processes_are_given_more_writes_as_celery_does() -> None:
    found = told("fcfs")
    assert found["left_of_one"] == 1
    assert found["done"] == 1 + JOBS
    assert found["celerys_own"]


def test_quick_calls_follow_one_another_in_one_process_until_others_come_behind_them() -> None:
    found = told("fair", "60")
    assert (found["left_of_quick"], found["processes_of_quick"]) == (JOBS - 1, 1)
    assert found["left_of_beside"] == 1
    assert (found["ended_meanwhile"], found["beside"]) == (0, 1)


def test_quick_calls_do_not_wait_for_long_for_a_process_that_is_not_quick() -> None:
    found = told("fair", "0.02")
    assert (found["ended_meanwhile"], found["beside"]) == (0, 1)


def test_where_none_is_to_wait_they_go_to_all_that_are_free() -> None:
    found = told("fair", "0")
    assert found["left_of_quick"] == JOBS - 2
    assert (found["left_of_beside"], found["beside"]) == (0, 1)
