"""The interrupt: an exception raised inside the tool that is running, and never inside anything else.

A signal carries it to the main thread of the worker's child. The handler raises only while the targeted request's body
is armed, once, and not inside `shield()`. A signal that comes late finds nothing armed and does nothing.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any
from uuid import UUID

INTERRUPT_SIGNAL = signal.SIGUSR2


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
        self.raised = False

    def install(self) -> None:
        """Install the handlers; in the child's main thread, because billiard resets signals after the fork.

        Celery's soft time limit would raise an `Exception` at any moment; it is never used, so its signal is ignored.
        """
        signal.signal(INTERRUPT_SIGNAL, self._handle)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def run(self, request_id: UUID, body: Callable[[], Any]) -> Returned | Raised:
        """Call `body` armed for `request_id`. What it raises is returned; a late interrupt does not lose a value."""
        outcome: Returned | Raised | None = None
        self.raised = False
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

    def interrupt(self, request_id: UUID) -> None:
        """Ask for the interrupt, from any thread. Idempotent: one body is interrupted once."""
        self._target = request_id
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, INTERRUPT_SIGNAL)

    @property
    def shielded(self) -> bool:
        return self._shields > 0

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Put the interrupt off until the block has ended."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            self._raise_if_due()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._armed is not None and self._armed == self._target and not self._shields:
            self._armed = None
            self.raised = True
            raise ToolCancelled
