"""Timers on a thread of their own, for work of the main process that must not wait for a slot or a Celery task.

An action that fails is logged, and the thread continues. Only the actions of `every` run again.
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
    due_at: float
    action: Callable[[], None] = field(compare=False)


class Timers:
    """Runs actions one after another, each when it is due or as soon after that as the thread is free.

    Each runs inside a new `make_context()`. `after` and `every` are safe in any thread and in signal handlers.
    """

    def __init__(self, name: str, make_context: Callable[[], AbstractContextManager[None]]) -> None:
        self._make_context = make_context
        # `SimpleQueue.put` is reentrant: a signal handler may call it in a thread that is in `put`.
        # `None` ends the thread.
        self._new: SimpleQueue[_Timer | None] = SimpleQueue()
        self._waiting: list[_Timer] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Begin no more actions, and wait up to `timeout` seconds for the current one. Later timers are dropped."""
        self._new.put(None)
        self._thread.join(timeout)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action once, in so many seconds, or as soon as possible if that is negative."""
        self._new.put(_Timer(time.monotonic() + seconds, action))

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action as soon as possible, and again `seconds` after each time it has ended or failed."""

        def run_and_repeat() -> None:
            try:
                action()
            finally:
                self.after(seconds, run_and_repeat)

        self.after(0, run_and_repeat)

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            try:
                with self._make_context():
                    timer.action()
            except databases.AWAY as error:
                name = self._thread.name
                logger.error("the database cannot be reached, so an action of %s failed: %s", name, str(error).strip())
            except Exception:
                logger.exception("an action of %s failed", self._thread.name)

    def _next(self) -> _Timer | None:
        while True:
            wait = max(0.0, self._waiting[0].due_at - time.monotonic()) if self._waiting else None
            try:
                new = self._new.get(timeout=wait)
            except Empty:
                return heappop(self._waiting)
            if new is None:
                return None
            heappush(self._waiting, new)
