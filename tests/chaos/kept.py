"""Keeps programs running: each is restarted a moment after it has ended, as systemd would do."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

from tests.support.site import programs
from tests.support.site.programs import Program

RESTART_AFTER: Final = 0.3
LOOK_SECONDS: Final = 0.05


@dataclass(slots=True)
class Life:
    """One process of a kept program. Times are Unix times."""

    pid: int
    began_at: float
    ready_at: float | None = None
    told_to_end_at: float | None = None
    ended_at: float | None = None
    status: int | None = None

    @property
    def gone_at(self) -> float | None:
        """The time since which it accepts no new calls. After SIGTERM it only finishes the calls that it has."""
        return self.told_to_end_at or self.ended_at


class Kept:
    """One program. `lives` are its processes so far. The last one may still run."""

    def __init__(self, name: str, start: Callable[[], Program], port: int | None = None) -> None:
        self.name = name
        self.port = port
        self.lives: list[Life] = []
        self.frozen: list[tuple[float, float]] = []
        self._start = start
        self.program = self._begin()

    def _begin(self) -> Program:
        program = self._start()
        self.lives.append(Life(program.pid, time.time()))
        return program

    def note_end(self) -> bool:
        """Return whether the program has ended, and record the end."""
        if not self.program.ended:
            return False
        if self.lives[-1].ended_at is None:
            self.lives[-1].ended_at, self.lives[-1].status = time.time(), self.program.wait()
        return True

    def begin_again(self) -> None:
        self.program = self._begin()

    def note_ready(self) -> None:
        """Record the time at which it first listens. A program without a port is ready from its beginning."""
        life = self.lives[-1]
        if life.ready_at is None and (self.port is None or programs.listens(self.port)):
            life.ready_at = time.time()

    def family(self) -> list[psutil.Process]:
        """Return its process and all descendants, oldest first."""
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.program.pid)
            return [root, *sorted(root.children(recursive=True), key=lambda each: each.create_time())]
        return []

    def troubled(self, since: float, until: float) -> bool:
        """Return whether no single process served, without being frozen, for all of that time."""
        still = any(began <= until and ended >= since for began, ended in self.frozen)
        return still or not any(
            life.ready_at is not None and life.ready_at < since and (life.gone_at is None or life.gone_at > until)
            for life in self.lives
        )


class Keeper:
    """The thread that restarts the programs."""

    def __init__(self, kept: Sequence[Kept]) -> None:
        self._kept = kept
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop restarting programs."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for each in self._kept:
                each.note_ready()
                if each.note_end() and time.time() - (each.lives[-1].ended_at or 0) > RESTART_AFTER:
                    each.begin_again()


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal, and return whether the process exists."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
