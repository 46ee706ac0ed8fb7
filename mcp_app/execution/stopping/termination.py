"""The end of a pool process by a signal, which waits for the call that the process runs.

Celery sends such a signal in a cold shutdown and for `revoke(terminate=True)`. A service manager
sends it to every process of a service, an administrator by hand. Celery's own handler raises
`SystemExit` wherever the process is, which would end a call as a failure of its tool. So this
handler is installed before Celery's:

1. If no call runs, Celery's handler is called.
2. If a call runs, the signal is remembered. The call may go on for `DRAIN_SECONDS`. Then the
   watcher has it cancelled, and ends the process when the call is over.
3. A second signal during a call raises `SystemExit` in the tool.
4. Celery's soft time limit is a signal as well. It is for the site's own tasks, so it is ignored
   while a call runs.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

SETTLING_SECONDS = 0.5
"""After the end of a task, the time in which the main process receives its result."""
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
"""The signals that end processes of the pool. One of them is named by `REMAP_SIGTERM`."""
_SOFT_LIMIT = signal.SIGUSR1


class Termination:
    """The signal handler of a pool process. Only `received_at` may be used by other threads."""

    def __init__(self, on_signal: Callable[[], object], is_armed: Callable[[], bool]) -> None:
        self._on_signal = on_signal
        self._is_armed = is_armed
        self._celery_handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._signal = signal.SIGTERM
        self._running = False
        self._finished_at = float("-inf")
        self.received_at: float | None = None
        """When the first signal was received (`time.monotonic`)."""

    def install(self) -> None:
        """Install the handler.

        Called before each run, because an earlier tool may have changed it.
        """
        for number in (*_SIGNALS, _SOFT_LIMIT):
            handler = signal.getsignal(number)
            if handler == self._handle:
                continue
            if number not in self._celery_handlers and callable(handler):
                self._celery_handlers[number] = handler
            if number in self._celery_handlers:
                signal.signal(number, self._handle)

    def begin(self) -> bool:
        """Put the end off from now on.

        Return `False` if a signal was received before, so no call may begin.
        """
        self._running = True
        return self.received_at is None

    def finish(self) -> None:
        """Note that the task is over and its result is stored.

        The process may end shortly after.
        """
        self._finished_at = time.monotonic()
        self._running = False

    def end(self) -> None:
        """End the process if a signal was received and no call runs. Safe in any thread."""
        settled = time.monotonic() - self._finished_at > SETTLING_SECONDS
        if self.received_at is not None and not self._running and settled:
            os.kill(os.getpid(), self._signal)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == _SOFT_LIMIT:
            if not self._running:
                self._celery_handlers[number](number, frame)
            return
        again = self.received_at is not None
        if not again:
            self.received_at, self._signal = time.monotonic(), signal.Signals(number)
            self._on_signal()
        if not self._running:
            self._celery_handlers[number](number, frame)
        elif again and self._is_armed():
            # Celery's handler is not called: it would let a further signal kill the process.
            raise SystemExit


class WorkerTermination(Termination):
    """For a worker whose calls run in its own threads. Signals are Celery's there."""

    def __init__(self) -> None:
        super().__init__(lambda: None, lambda: False)

    def install(self) -> None:
        """Do nothing, because the signals are Celery's."""
