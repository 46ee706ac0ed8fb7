"""Attempts to cancel that change nothing, as often as a client likes: the first of a burst are audited one by one, the
rest are counted and get one row when their window closes.

Owns the counts of one process, which die with it when it is killed. Refuses to leave out an attempt that took effect,
or one that an administrator or the system made.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mcp_app.lifecycle import audit
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.locks import transactional
from mcp_app.states import Cause, Outcome

WINDOW_SECONDS: Final = 60.0
RECORDED: Final = 10
"""Attempts of one kind in one window that have rows of their own; those under way at once may be a few more."""
KINDS: Final = 1_000
"""Windows in memory from which on those that are over are looked for whenever one begins."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What attempts of one burst have in common."""

    cause: Cause
    actor: Actor
    outcome: Outcome


@dataclass(slots=True)
class Window:
    """From the first attempt of a kind on."""

    kind: Kind
    closes_at: float
    recorded: int = 0
    counted: int = 0


class Bursts:
    """The windows of one process. May be used from any thread; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Kind, Window] = {}
        self._closed: list[Window] = []

    def admits(self, kind: Kind) -> bool:
        """Whether one more attempt of this kind is to have a row of its own."""
        with self._lock:
            return self._window(kind).recorded < RECORDED

    def add(self, kind: Kind, *, recorded: bool) -> None:
        """Note an attempt that is committed, with a row of its own or without."""
        with self._lock:
            window = self._window(kind)
            window.recorded += recorded
            window.counted += not recorded

    @property
    def wait(self) -> float | None:
        """Seconds until `append_summaries` has something to write; None while nothing was counted."""
        with self._lock:
            closing = [window.closes_at for window in (*self._closed, *self._open.values()) if window.counted]
        return max(0.0, min(closing) - self._clock()) if closing else None

    def append_summaries(self, *, all_windows: bool = False) -> None:
        """Audit what was only counted in the windows that have closed, or in all. Raises django.db.Error."""
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

    def _window(self, kind: Kind) -> Window:
        begins = kind not in self._open
        for each in list(self._open) if begins and len(self._open) >= KINDS else [kind]:
            self._close(each, only_if_due=True)
        return self._open.setdefault(kind, Window(kind, self._clock() + WINDOW_SECONDS))

    def _close(self, kind: Kind, *, only_if_due: bool) -> None:
        window = self._open.get(kind)
        if window is None or (only_if_due and window.closes_at > self._clock()):
            return
        del self._open[kind]
        if window.counted:
            self._closed.append(window)


@transactional
def _append(window: Window) -> None:
    reason = f"{window.counted} more such attempts within {WINDOW_SECONDS:g} s"
    attempt = audit.attempt(window.kind.cause, window.kind.actor, reason)
    audit.record(attempt, window.kind.outcome, row=None, requested_id="")
