"""Jobs reach the processes of Celery's own pool without a turn of its event loop in between."""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state as worker_state
from kombu.asynchronous.semaphore import LaxBoundedSemaphore

from mcp_app import databases
from mcp_app.execution import job_writes
from mcp_app.execution.job_writes import JobWrites
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK
from tests.execution.job_writing import FOR_EVER, JOBS

PATIENCE = 0.25
"""Of which sums are exact."""


@cache
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
    found = told("fair", str(FOR_EVER))
    assert found["left_waiting"] == 1
    assert (found["ended_meanwhile"], found["beside"]) == (0, 1)
    assert found["processes_that_followed"] == 1


def test_what_waits_is_written_before_the_pool_closes() -> None:
    found = told("fair", str(FOR_EVER))
    assert (found["left_before_close"], found["left_at_close"]) == (1, 0)


def test_quick_calls_do_not_wait_for_long_for_a_process_that_is_not_quick() -> None:
    found = told("fair", "0.05")
    assert (found["left_waiting"], found["ended_meanwhile"], found["beside"]) == (1, 0, 1)


@dataclass(eq=False)
class Job:
    is_over: bool = False
    _write_to: int | None = None

    def ready(self) -> bool:
        return self.is_over


class Loop:
    """A pool of two processes, 1 and 2, the worker's slots and its event loop: who has which job, what is planned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(job_writes, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.outbound_buffer: deque[Job] = deque()
        self.writers: dict[int, Any] = {}
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self._all_inqueues, self._busy_workers, self._active_writes = {1, 2}, set[int](), set[int]()
        self._jobs: dict[int, Job] = {}
        self._slots = LaxBoundedSemaphore(2)
        self.writes = JobWrites(self, self, self._slots, PATIENCE)

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        self.planned.append((self.now + seconds, action))

    def consolidate_callback(self, processes: list[int]) -> None:
        for process in processes:
            self._busy_workers.add(process)
            self._jobs[process] = job = self.outbound_buffer.popleft()
            job._write_to = process

    def on_poll_start(self) -> None:
        raise AssertionError("there is nothing for Celery to write")

    def take(self, task: str = RUN_BATCH_TASK) -> Job:
        job = Job()
        self._slots.acquire(self._enter, job, task)
        self.writes.on_tick()
        return job

    def end(self, job: Job) -> None:
        """As billiard does: another may enter before the job is said to be over."""
        self._free(job)
        self._slots.release()
        job.is_over = True
        self.writes.on_tick()

    def lose(self, job: Job) -> None:
        """Its process has died before it took the job."""
        self._free(job)
        self.outbound_buffer.appendleft(job)
        self.writes.on_tick()

    @property
    def running(self) -> set[Job]:
        return set(self._jobs.values())

    def sleep(self, seconds: float) -> None:
        """As kombu's loop does, which settles for how long it sleeps before the work of the turn."""
        end = self.now + seconds
        while self.now < end:
            wakes_at = min([end, *(at for at, _ in self.planned)])
            self.writes.on_tick()
            self.now = wakes_at
            due = [action for at, action in self.planned if at <= self.now]
            self.planned = [(at, action) for at, action in self.planned if at > self.now]
            for action in due:
                action()

    def _enter(self, job: Job, task: str) -> None:
        self.outbound_buffer.append(job)
        self.writes.took(job, task)
        self.writes.write()

    def _free(self, job: Job) -> None:
        [process] = [each for each, its in self._jobs.items() if its is job]
        del self._jobs[process]
        self._busy_workers.remove(process)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def test_quick_calls_wait_for_the_process_that_runs_others_and_no_longer_than_they_may(loop: Loop) -> None:
    first, second = loop.take(), loop.take()
    assert loop.running == {first}
    loop.sleep(PATIENCE)
    assert loop.running == {first, second}


def test_what_waits_is_next_when_that_process_is_free(loop: Loop) -> None:
    first, second = loop.take(), loop.take()
    loop.end(first)
    assert loop.running == {second}


def test_those_that_come_later_have_a_look_of_their_own(loop: Loop) -> None:
    first = loop.take()
    loop.sleep(PATIENCE / 2)
    later = loop.take()
    loop.sleep(PATIENCE / 2)
    assert loop.running == {first}
    loop.sleep(PATIENCE / 2)
    assert loop.running == {first, later}
    loop.sleep(PATIENCE)
    assert loop.planned == [], "nothing is looked for where nothing waits"


@pytest.mark.parametrize("task", [RUN_BATCH_TASK, "one"])
def test_nothing_waits_that_keeps_others_from_a_slot(loop: Loop, task: str) -> None:
    first, second = loop.take(), loop.take()
    third = loop.take(task)
    assert loop.running == {first, second}
    loop.end(second)
    loop.sleep(PATIENCE)
    assert loop.running == {first, third}


def test_nothing_waits_where_more_wait_than_processes_are_free(loop: Loop) -> None:
    first, second = loop.take(), loop.take()
    loop._slots.clear()  # as Celery does where it connects again: as many more enter as there are slots
    third = loop.take()
    assert loop.running == {first, second}
    assert list(loop.outbound_buffer) == [third]


def test_while_more_comes_than_one_process_runs_all_are_busy(loop: Loop) -> None:
    jobs = [loop.take() for _ in range(10)]
    for job in jobs[:7]:
        assert len(loop.running) == 2
        loop.end(job)


def test_what_entered_when_a_process_became_free_does_not_wait_beside_it_for_long(loop: Loop) -> None:
    alone, quick = loop.take("one"), loop.take()
    waiting = loop.take()
    loop.end(alone)
    assert loop.running == {quick}
    loop.sleep(PATIENCE)
    assert loop.running == {quick, waiting}


def test_nothing_waits_for_a_process_that_is_not_quick(loop: Loop) -> None:
    slow = loop.take()
    loop.sleep(2 * PATIENCE)
    later = loop.take()
    assert loop.running == {slow, later}


def test_what_comes_back_from_a_process_that_died_does_not_wait(loop: Loop) -> None:
    first, second = loop.take(), loop.take()
    loop.end(first)
    third = loop.take()
    loop.lose(second)
    assert second in loop.running
    loop.sleep(PATIENCE)
    assert loop.running == {second, third}


def test_nothing_waits_once_the_pool_is_to_close(loop: Loop) -> None:
    first, second = loop.take(), loop.take()
    loop.writes.before_close()
    assert loop.running == {first, second}
    loop.outbound_buffer.append(Job())
    loop._free(first)
    loop.now += PATIENCE
    for _, action in loop.planned:
        action()
    assert loop.running == {second}, "what Celery does in another thread then writes nothing"


def test_nothing_is_begun_only_to_be_killed(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = loop.take(), loop.take()
    monkeypatch.setattr(worker_state, "should_terminate", 1)
    loop.writes.before_close()
    assert loop.running == {first}
    assert list(loop.outbound_buffer) == [second]


@pytest.mark.django_db(databases="__all__")
def test_quick_calls_wait_where_one_process_writes_at_a_time() -> None:
    assert job_writes.patience() == (job_writes.PATIENCE if databases.connection().vendor == "sqlite" else 0.0)


def test_a_pool_that_takes_no_job_any_more_has_none_to_write(loop: Loop) -> None:
    loop.writes.took(None, RUN_BATCH_TASK)
    assert loop.planned == []
