"""Timers on a thread of their own, for work of the main process that must wait for no slot or task.

An action that fails is logged; the thread goes on.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from queue import Empty, SimpleQueue

from mcp_app import databases

logger = logging.getLogger(__name__)


@dataclass(order=True, slots=True)
class _Timer:
    due: float
    action: Callable[[], None] = field(compare=False)


class Timers:
    """Runs each action at its time, inside `around()`.

    `after` is safe in any thread and in signal handlers.
    """

    def __init__(self, name: str, around: Callable[[], AbstractContextManager[None]]) -> None:
        self._around = around
        # `SimpleQueue.put` is reentrant: a signal handler may interrupt its own thread in `put`.
        self._new: SimpleQueue[_Timer | None] = SimpleQueue()
        self._waiting: list[_Timer] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Begin no more actions, and wait up to `timeout` seconds for the current one."""
        self._new.put(None)
        self._thread.join(timeout)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._new.put(_Timer(time.monotonic() + seconds, action))

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action now, and again after each interval."""

        def again() -> None:
            try:
                action()
            finally:
                self.after(seconds, again)

        self.after(0, again)

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            try:
                with self._around():
                    timer.action()
            except databases.AWAY as error:
                logger.error(
                    "the database cannot be reached; the ladder tries again in its next round: %s", str(error).strip()
                )
            except Exception:
                logger.exception("a step of the ladder failed; it is tried again in the next round")

    def _next(self) -> _Timer | None:
        while True:
            wait = max(0.0, self._waiting[0].due - time.monotonic()) if self._waiting else None
            try:
                new = self._new.get(timeout=wait)
            except Empty:
                return heappop(self._waiting)
            if new is None:
                return None
            heappush(self._waiting, new)
