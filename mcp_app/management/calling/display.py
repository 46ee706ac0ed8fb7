"""Shows a running call on standard error: lines, and at a terminal a progress bar below them.

A thread of its own writes, because a stopped terminal (Ctrl-S) or an unread pager must not block the heartbeat of the
process. If nothing is read, only the newest lines and the newest progress are kept.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

from mcp_app.management import terminal
from mcp_app.presentation.formatting import duration, number

FRAME_SECONDS: Final = 0.1
LINE_SECONDS: Final = 1.0
"""Time between two progress lines if there is no bar."""
KEPT_LINES: Final = 10_000
BAR_CELLS: Final = 20
LINE_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The progress of a call. If `done` is `None`, the tool has reported none, and `message` is the call's status."""

    done: float | None = None
    total: float | None = None
    message: str = ""

    def words(self) -> str:
        if self.done is None:
            return self.message
        amount = number(self.done) if self.total is None else f"{number(self.done)} of {number(self.total)}"
        return f"{amount}  {self.message}".rstrip()

    def bar(self) -> str:
        if self.done is None or self.total is None or self.total <= 0:
            return ""
        filled = round(BAR_CELLS * min(max(self.done / self.total, 0.0), 1.0))
        return f"[{'#' * filled}{'-' * (BAR_CELLS - filled)}]"


class Display:
    """Shows one call until `close`. All methods but `held` and `close` return at once."""

    def __init__(self, stream: TextIO, name: str, *, silent: bool = False) -> None:
        self._stream = stream
        self._name = name
        self._live = terminal.is_live(stream)
        self._began_at = time.monotonic()
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._progress = CallProgress()
        self._news = False
        self._said_at = float("-inf")
        self._bar = ""
        self._holding = self._closing = False
        self._changed = threading.Condition()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mcp-display", daemon=True)
        self._silent = silent
        if not silent:
            self._thread.start()

    def line(self, text: object) -> None:
        """Show a line."""
        with self._changed:
            self._lines.append(terminal.one_line(str(text)[:LINE_CHARS]))
            self._changed.notify()

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._set(
            CallProgress(float(done), None if total is None else float(total), terminal.one_line(message[:LINE_CHARS]))
        )

    def where(self, words: str) -> None:
        """Show the status of the call, as long as the tool reports no progress."""
        with self._changed:
            if self._progress.done is None and self._progress.message != words:
                self._progress = CallProgress(message=words)
                self._news = True
                self._changed.notify()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hide the bar and write nothing during the block."""
        self._hold(True)
        try:
            yield
        finally:
            self._hold(False)

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Show this app's warnings as lines during the block, unless the site has a handler for them."""
        logger = logging.getLogger("mcp_app")
        handler = _LogDisplay(self)
        takes = not self._silent and not logger.hasHandlers()
        if takes:
            logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)

    def close(self) -> None:
        if not self._silent:
            with self._changed:
                self._closing = True
                self._changed.notify()
            self._thread.join()

    @property
    def elapsed(self) -> float:
        """Seconds since the display was created."""
        return time.monotonic() - self._began_at

    def _hold(self, holding: bool) -> None:
        if self._silent:
            return
        self._idle.clear()
        with self._changed:
            self._holding = holding
            self._changed.notify()
        while holding and self._thread.is_alive() and not self._idle.wait(FRAME_SECONDS):
            pass

    def _set(self, progress: CallProgress) -> None:
        with self._changed:
            self._progress, self._news = progress, True
            self._changed.notify()

    def _run(self) -> None:
        """Write until the display is closed. This is the thread."""
        try:
            while self._step():
                pass
        except (OSError, ValueError):  # the output is closed
            return

    def _step(self) -> bool:
        """Wait for something to write, and write it. Return whether more may come."""
        with self._changed:
            if not (self._closing or self._lines or self._holding != self._idle.is_set()):
                self._changed.wait(self._patience())
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            progress, closing, resting = self._progress, self._closing, self._closing or self._holding
            is_due = progress.done is not None if closing else self._is_due()
            news = self._news and not self._live and is_due
            self._news = self._news and not (self._live or news)
        self._write(lines, progress, news=news, bar=self._live and not resting)
        if self._holding:
            self._idle.set()
        return not closing

    def _is_due(self) -> bool:
        return time.monotonic() - self._said_at >= LINE_SECONDS

    def _patience(self) -> float | None:
        if self._holding:
            return None
        if self._live:
            return FRAME_SECONDS
        return max(0.0, self._said_at + LINE_SECONDS - time.monotonic()) if self._news else None

    def _write(self, lines: list[str], progress: CallProgress, *, news: bool, bar: bool) -> None:
        if news and progress.words():
            self._said_at = time.monotonic()
            lines.insert(0, f"{progress.words()}  ({duration(self.elapsed)})")
        shown = self._bar_of(progress) if bar else ""
        if lines or shown != self._bar:
            erased = terminal.ERASE_LINE if self._bar else ""
            self._stream.write(erased + "".join(f"{line}\n" for line in lines) + shown)
            self._stream.flush()
            self._bar = shown

    def _bar_of(self, progress: CallProgress) -> str:
        """Return the bar, one cell shorter than the line, because some terminals wrap at its end."""
        parts = (self._name, progress.bar(), _clock(self.elapsed), progress.words())
        return terminal.cut("  ".join(part for part in parts if part), terminal.size(self._stream)[0] - 1)


class _LogDisplay(logging.Handler):
    """Shows log records as lines of a display."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        self._display.line(self.format(record))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
