"""The end of a worker's child by signal: put off while it runs a call, so that no row is left behind half-way.

Celery sends it in a cold shutdown and by `revoke(terminate=True)`, a service manager to every process of a service, an
administrator by hand. The call is given `DRAIN_SECONDS`, as in any shutdown; then the watcher has it cancelled. Whoever
sends it twice does not wait. Refuses to stop a tool by itself: what Celery's own handler does, raise `SystemExit`
wherever the process happens to be, would end a call as a failure of its tool.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from mcp_app.execution.handlers import handler_of

SETTLING = 0.5
"""Seconds from the end of a task in which the worker's main process has heard of it."""
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
"""Those by which Celery's children end (one of them is the one that `REMAP_SIGTERM` names)."""


class Termination:
    """Told to end or not, in the middle of a run or not. All but `told_at` is the main thread's."""

    def __init__(self, on_told: Callable[[], object], is_armed: Callable[[], bool]) -> None:
        self._on_told = on_told
        self._is_armed = is_armed
        self._ends: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._number = signal.SIGTERM
        self._running = False
        self._finished_at = float("-inf")
        self.told_at: float | None = None
        """When it was told to (`time.monotonic`)."""

    def install(self) -> None:
        """Stand before Celery's handlers; again before each run, as a tool before may have taken the signals."""
        for number in _SIGNALS:
            handler = handler_of(number)
            if handler == self._handle:
                continue
            if number not in self._ends and callable(handler):
                self._ends[number] = handler
            if number in self._ends:
                signal.signal(number, self._handle)

    def begin(self) -> bool:
        """Put the end off from now on; False where it was told before, and no call is to begin."""
        self._running = True
        return self.told_at is None

    def finish(self) -> None:
        """The task is over, its result stored: the end that was put off may come in a moment."""
        self._finished_at = time.monotonic()
        self._running = False

    def end(self) -> None:
        """Have the process end, where it was told to and runs nothing. From any thread."""
        settled = time.monotonic() - self._finished_at > SETTLING
        if self.told_at is not None and not self._running and settled:
            os.kill(os.getpid(), self._number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again = self.told_at is not None
        if not again:
            self.told_at, self._number = time.monotonic(), signal.Signals(number)
            self._on_told()
        if not self._running:
            self._ends[number](number, frame)
        elif again and self._is_armed():
            raise SystemExit  # not by Celery's handler: one signal more would be death in the middle of what follows


class OfWorker(Termination):
    """Of a process that is the worker's own, its calls in threads: its end is the worker's, and never told here."""

    def __init__(self) -> None:
        super().__init__(lambda: None, lambda: False)

    def install(self) -> None:
        """Nothing: the signals are Celery's."""
