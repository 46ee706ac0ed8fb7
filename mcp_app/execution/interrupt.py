"""The interrupt: an exception raised inside the tool that is running, and never inside anything else.

A signal carries it to the main thread of the worker's child. The handler raises only while the targeted request's body
is armed, once, and not inside `shield()`. A signal that comes late finds nothing armed and does nothing.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any
from uuid import UUID

INTERRUPT_SIGNAL = signal.SIGUSR2
DELICATE_MODULES = frozenset({"logging", "importlib._bootstrap", "opentelemetry.sdk.trace"})


class ToolCancelled(BaseException):
    """Raised in a tool whose request was cancelled. Let it pass, or clean up and raise it again."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The body came to its end."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised, be it an error or a cancellation."""

    error: BaseException


class Interrupter:
    """Arms one tool body at a time and raises `ToolCancelled` in it on request. One for each worker child."""

    def __init__(self) -> None:
        self._armed: UUID | None = None
        self._target: UUID | None = None
        self._shields = 0
        self._thread = threading.main_thread()
        self._insisting = False
        self.raised = False

    def install(self) -> None:
        """Install the handlers; in the child's main thread, because billiard resets signals after the fork.

        Celery's soft time limit would raise an `Exception` at any moment; it is never used, so its signal is ignored.
        """
        signal.signal(INTERRUPT_SIGNAL, self._handle)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {INTERRUPT_SIGNAL})

    def run(self, request_id: UUID, body: Callable[[], Any]) -> Returned | Raised:
        """Call `body` armed for `request_id`. What it raises is returned; a late interrupt does not lose a value."""
        outcome: Returned | Raised | None = None
        self.install()  # a tool before may have taken or blocked the signals
        self.raised = False
        self._insisting = False
        self._shields = 0
        try:
            try:
                self._armed = request_id
                outcome = Returned(body())
            finally:
                self._armed = None
        except BaseException as error:
            return outcome or Raised(error)
        return outcome

    def interrupt(self, request_id: UUID, *, insist: bool = False) -> None:
        """Ask for the interrupt, from any thread. Idempotent: one body is interrupted once.

        It may not be raised where that would be lost or do harm (see `_is_delicate`): ask again, at last with `insist`.
        """
        self._target, self._insisting = request_id, insist
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, INTERRUPT_SIGNAL)

    @property
    def shielded(self) -> bool:
        return self._shields > 0

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Put the interrupt off until the block has ended, and where it may not be raised, until it is asked for again.

        In other threads, which none strikes, it does nothing.
        """
        if threading.get_ident() != self._thread.ident:
            yield
            return
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            self._raise_if_due(sys._getframe())

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._raise_if_due(frame)

    def _raise_if_due(self, frame: FrameType | None) -> None:
        if self._armed is None or self._armed != self._target or self._shields:
            return
        if self._insisting or not _is_delicate(frame):
            self._armed = None
            self.raised = True
            raise ToolCancelled


def _is_delicate(frame: FrameType | None) -> bool:
    """Whether an exception raised in `frame` is swallowed (finalizers), or would leave what the whole process shares
    in pieces: a lock of logging or tracing held for good, a module half imported.

    Looks no further up than the armed body.
    """
    while frame is not None and frame.f_code is not Interrupter.run.__code__:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in DELICATE_MODULES:
            return True
        frame = frame.f_back
    return False
