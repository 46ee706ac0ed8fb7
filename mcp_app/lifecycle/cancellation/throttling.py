"""Limits the audit rows of attempts to cancel that change nothing, so that no client can fill the audit.

The first attempts of a kind get a row each. Further attempts within `WINDOW_SECONDS` are counted, and get one row
together when the window closes. The counts belong to one process, and are lost if it is killed. Attempts that take
effect always get a row, and so do attempts by administrators and by the system.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mcp_app.lifecycle.audit import attempts
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.states import Cause, Outcome

WINDOW_SECONDS: Final = 60.0
RECORDED: Final = 10
"""Attempts of one kind in one window that get rows of their own. Concurrent attempts may exceed this a little."""
KINDS: Final = 1_000
"""With this many windows in memory, those that have closed are removed whenever another one opens."""


@dataclass(frozen=True, slots=True)
class AttemptKind:
    """Attempts that are counted together."""

    cause: Cause
    actor: Actor
    outcome: Outcome


@dataclass(slots=True)
class Window:
    """The time from the first attempt of a kind, for `WINDOW_SECONDS`."""

    kind: AttemptKind
    closes_at: float
    recorded: int = 0
    counted: int = 0


class BurstThrottle:
    """The windows of one process. May be used from any thread; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[AttemptKind, Window] = {}
        self._closed: list[Window] = []

    def admits(self, kind: AttemptKind, *, beside: int = 0) -> bool:
        """Whether one more attempt gets a row of its own, with `beside` others that are not committed yet."""
        with self._lock:
            window = self._open.get(kind)
            recorded = 0 if window is None or window.closes_at <= self._clock() else window.recorded
            return recorded + beside < RECORDED

    def add(self, kind: AttemptKind, *, recorded: bool) -> None:
        """Count an attempt that was committed, with a row of its own or without."""
        with self._lock:
            window = self._window(kind)
            window.recorded += recorded
            window.counted += not recorded

    @property
    def wait(self) -> float | None:
        """Seconds until `append_summaries` has something to write, or `None` if nothing was counted."""
        with self._lock:
            closing = [window.closes_at for window in (*self._closed, *self._open.values()) if window.counted]
        return max(0.0, min(closing) - self._clock()) if closing else None

    def append_summaries(self, *, all_windows: bool = False) -> None:
        """Write a row for the counted attempts of closed windows, or of all. Raises `django.db.Error`."""
        with self._lock:
            for kind in list(self._open):
                self._close(kind, only_if_due=not all_windows)
        while self._closed:
            window = self._closed.pop()
            try:
                _append(window)
            except Exception:
                self._closed.append(window)
                raise

    def _window(self, kind: AttemptKind) -> Window:
        """Return the open window of a kind. Open one if there is none, or if its time is over."""
        begins = kind not in self._open
        for each in list(self._open) if begins and len(self._open) >= KINDS else [kind]:
            self._close(each, only_if_due=True)
        return self._open.setdefault(kind, Window(kind, self._clock() + WINDOW_SECONDS))

    def _close(self, kind: AttemptKind, *, only_if_due: bool) -> None:
        window = self._open.get(kind)
        if window is None or (only_if_due and window.closes_at > self._clock()):
            return
        del self._open[kind]
        if window.counted:
            self._closed.append(window)


@transactional
def _append(window: Window) -> None:
    reason = f"{window.counted} more such attempts within {WINDOW_SECONDS:g} s"
    attempt = attempts.make_attempt(window.kind.cause, window.kind.actor, reason)
    attempts.record(attempt, window.kind.outcome, row=None, requested_id="")
