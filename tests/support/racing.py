"""Runs functions in threads that start at the same moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

PATIENCE = 20.0
often = pytest.mark.parametrize("times", [40, pytest.param(400, marks=pytest.mark.nightly)])
"""Repeats a race whose winner the scheduler chooses."""


class Race:
    """One thread for each runner. A thread keeps its database connections from one race to the next."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size)
        self._start = threading.Barrier(size)
        self._end = threading.Barrier(size)

    def run(self, *runners: Callable[[], Any]) -> list[Any]:
        """Run each function in its own thread, and return their results in the order given."""
        futures = [self._pool.submit(self._await_start, runner) for runner in runners]
        return [future.result(PATIENCE) for future in futures]

    def close(self) -> None:
        # Each thread must close its own connections. The barriers make every thread run `_leave` exactly once.
        self.run(*[self._leave] * self._end.parties)
        self._pool.shutdown()

    def _await_start(self, runner: Callable[[], Any]) -> Any:
        self._start.wait(PATIENCE)
        return runner()

    def _leave(self) -> None:
        connections.close_all()
        self._end.wait(PATIENCE)


@contextmanager
def races(size: int):
    race = Race(size)
    try:
        yield race
    finally:
        race.close()


def race(*runners: Callable[[], Any]) -> list[Any]:
    """Run the functions once, each in its own thread, and return their results in the order given."""
    with races(len(runners)) as once:
        return once.run(*runners)
