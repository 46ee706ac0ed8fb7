"""Jobs reach the processes of Celery's own pool without a turn of its event loop in between."""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_app.execution import job_writes
from mcp_app.execution.job_writes import PATIENCE, JobWrites
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK
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


@dataclass(eq=False)
class Job:
    is_over: bool = False

    def ready(self) -> bool:
        return self.is_over


class Loop:
    """A pool of two processes, 1 and 2, and its event loop: who has which job, and what is to be done when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(job_writes, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.outbound_buffer: deque[Job] = deque()
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self._all_inqueues, self._busy_workers, self._active_writes = {1, 2}, set[int](), set[int]()
        self._jobs: dict[int, Job] = {}
        self._writes = JobWrites(self, self, PATIENCE)

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        self.planned.append((self.now + seconds, action))

    def consolidate_callback(self, processes: list[int]) -> None:
        for process in processes:
            self._busy_workers.add(process)
            self._jobs[process] = self.outbound_buffer.popleft()

    def take(self, task: str = RUN_BATCH_TASK) -> Job:
        job = Job()
        self.outbound_buffer.append(job)
        self._writes.took(job, task)
        self._writes.write()
        return job

    def end(self, job: Job) -> None:
        [process] = [each for each, its in self._jobs.items() if its is job]
        job.is_over = True
        del self._jobs[process]
        self._busy_workers.remove(process)
        self._writes.write()

    def runs(self, job: Job) -> bool:
        return job in self._jobs.values()

    def sleep(self, seconds: float) -> None:
        """As long, or until there is something to be done."""
        self.now += seconds
        due = [action for at, action in self.planned if at <= self.now]
        self.planned = [(at, action) for at, action in self.planned if at > self.now]
        for action in due:
            action()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def test_quick_calls_wait_for_the_process_that_runs_others_and_no_longer_than_they_may(loop: Loop) -> None:
    first, second = loop.take(), loop.take()
    assert (loop.runs(first), loop.runs(second)) == (True, False)
    loop.sleep(PATIENCE)
    assert loop.runs(second)


def test_those_that_come_later_have_a_look_of_their_own(loop: Loop) -> None:
    loop.take()
    loop.sleep(PATIENCE / 2)
    later = loop.take()
    loop.sleep(PATIENCE / 2)
    assert not loop.runs(later)
    loop.sleep(PATIENCE / 2)
    assert loop.runs(later)
    loop.sleep(PATIENCE)
    assert loop.planned == [], "nothing is looked for where nothing waits"


def test_what_came_when_all_were_busy_does_not_wait_beside_one_that_is_free(loop: Loop) -> None:
    alone = loop.take("one")
    loop.take()
    waiting = loop.take()
    loop.end(alone)
    assert not loop.runs(waiting)
    loop.sleep(PATIENCE)
    assert loop.runs(waiting)


def test_nothing_waits_for_a_process_that_is_not_quick(loop: Loop) -> None:
    loop.take()
    loop.sleep(2 * PATIENCE)
    assert loop.runs(loop.take())


def test_a_pool_that_takes_no_job_any_more_has_none_to_write(loop: Loop) -> None:
    JobWrites(loop, loop, PATIENCE).took(None, RUN_BATCH_TASK)
    assert loop.planned == []
