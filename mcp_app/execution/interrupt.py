"""The interrupt: an exception raised inside the tool that is running, and never inside anything else.

It is raised only while the targeted request's body is armed, once, and not inside `shield()`; one that comes late finds
nothing armed and does nothing. In a process of prefork's pool a signal carries it to the main thread; how it gets into
one thread of many is `thread_interrupt`'s.
"""

import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any
from uuid import UUID

from mcp_app.execution.handlers import handler_of, unblock
from mcp_app.execution.with_statements import is_entering

INTERRUPT_SIGNAL = signal.SIGUSR2
DELICATE_MODULES = frozenset({"logging", "importlib._bootstrap", "opentelemetry.sdk.trace"})
SWALLOWING_MODULES = frozenset({"asyncio.events", "asyncio.selector_events"})
"""Where an event loop that is between two tasks logs what is raised, and goes on."""


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


class Interrupter(ABC):
    """Arms one tool body at a time in the thread `ident`, and raises `ToolCancelled` in it on request."""

    def __init__(self, ident: int | None) -> None:
        self._ident = ident
        self._armed: UUID | None = None
        self._target: UUID | None = None
        self._shields = 0
        self._insisting = False
        self.raised = False

    def run(self, request_id: UUID, body: Callable[[], Any]) -> Returned | Raised:
        """Call `body` armed for `request_id`. What it raises is returned; a late interrupt does not lose a value."""
        outcome: Returned | Raised | None = None
        self.raised = False
        self._insisting = False
        self._shields = 0
        try:
            try:
                self._arm(request_id)
                outcome = Returned(body())
            finally:
                self._disarm()
        except BaseException as error:
            self._disarm()  # the interrupt, of which there is one, may have struck in the first attempt
            return outcome or Raised(error)
        return outcome

    @abstractmethod
    def interrupt(self, request_id: UUID, *, insist: bool = False) -> None:
        """Ask for the interrupt, from any thread. Idempotent: one body is interrupted once.

        It may not be raised where that would be lost or do harm (see `is_delicate`): ask again, at last with `insist`.
        """

    @property
    def armed(self) -> bool:
        """Whether a tool's body runs, and was not interrupted yet."""
        return self._armed is not None

    @property
    def shielded(self) -> bool:
        return self._shields > 0

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Put the interrupt off until the block has ended, and where it may not be raised, until it is asked for again.

        In other threads, which none strikes, it does nothing.
        """
        if threading.get_ident() != self._ident:
            yield
            return
        self._enter_shield()
        try:
            yield
        finally:
            self._leave_shield()

    @abstractmethod
    def _arm(self, request_id: UUID) -> None:
        """From here on an interrupt for `request_id` may be raised."""

    def _disarm(self) -> None:
        """From here on none is."""
        self._armed = None

    def _enter_shield(self) -> None:
        self._shields += 1

    def _leave_shield(self) -> None:
        self._shields -= 1
        self._raise_if_due(sys._getframe())

    def _raise_if_due(self, frame: FrameType | None) -> None:
        if self._is_due(frame):
            self._armed = None
            self.raised = True
            raise ToolCancelled

    def _is_due(self, frame: FrameType | None) -> bool:
        """Whether the interrupt was asked for and may be raised in `frame`."""
        return not self._shields and self._would_be_due(frame)

    def _would_be_due(self, frame: FrameType | None) -> bool:
        """The same without any shield."""
        if self._armed is None or self._armed != self._target:
            return False
        return self._insisting or not is_delicate(frame)


class SignalInterrupter(Interrupter):
    """Interrupts the main thread of this process by a signal. One for each child of prefork's pool."""

    def __init__(self) -> None:
        super().__init__(threading.main_thread().ident)

    def install(self) -> None:
        """Install the handlers; in the child's main thread, because billiard resets signals after the fork.

        Celery's soft time limit would raise an `Exception` at any moment; it is never used, so its signal is ignored.
        """
        for number, handler in ((INTERRUPT_SIGNAL, self._handle), (signal.SIGUSR1, signal.SIG_IGN)):
            if handler_of(number) != handler:
                signal.signal(number, handler)
        unblock(INTERRUPT_SIGNAL)

    def run(self, request_id: UUID, body: Callable[[], Any]) -> Returned | Raised:
        self.install()  # a tool before may have taken or blocked the signals
        return super().run(request_id, body)

    def interrupt(self, request_id: UUID, *, insist: bool = False) -> None:
        self._target, self._insisting = request_id, insist
        if self._ident is not None:
            signal.pthread_kill(self._ident, INTERRUPT_SIGNAL)

    def _arm(self, request_id: UUID) -> None:
        self._armed = request_id

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._raise_if_due(frame)


def is_delicate(frame: FrameType | None) -> bool:
    """Whether an exception raised in `frame` is swallowed (finalizers), or would leave what the whole process shares
    in pieces: a lock taken and held for good, a module half imported.

    Looks no further up than the armed body.
    """
    if frame is not None and frame.f_globals.get("__name__") in SWALLOWING_MODULES:
        return True
    if is_entering(frame):
        return True
    while frame is not None and frame.f_code is not Interrupter.run.__code__:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in DELICATE_MODULES:
            return True
        frame = frame.f_back
    return False
