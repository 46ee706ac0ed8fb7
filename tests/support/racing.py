"""Threads that start at one moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

PATIENCE = 20.0
often = pytest.mark.parametrize("times", [40, pytest.param(400, marks=pytest.mark.nightly)])
"""For a race whose winner is the scheduler's choice."""


class Race:
    """As many threads as runners, each keeping its database connections from one race to the next."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size)
        self._start = threading.Barrier(size)
        self._end = threading.Barrier(size)

    def run(self, *runners: Callable[[], Any]) -> list[Any]:
        """What each runner returned, in the order given."""
        futures = [self._pool.submit(self._await_start, runner) for runner in runners]
        return [future.result(PATIENCE) for future in futures]

    def close(self) -> None:
        # Each thread closes what is its own: none leaves before all have come.
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
    """Run each in a thread of its own, all from one moment on; what each returned."""
    with races(len(runners)) as once:
        return once.run(*runners)
