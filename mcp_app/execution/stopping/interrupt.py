"""The stop signal of a call, and the interrupt: an exception that is raised in the running tool.

Theory of operation
-------------------

A tool is stopped in two steps. First its `StopSignal` is set. The tool sees that when it uses its
context, and may end by itself. Later the watcher calls `Interrupter.interrupt`, which raises
`ToolCancelled` in the tool's thread. `ToolCancelled` is a `BaseException`, so that a tool's `except
Exception` does not swallow it.

The exception must hit the tool and nothing else. These rules guarantee that:

1. `run` arms the interrupter for one request, calls the body and disarms it. An interrupt is raised
   only if `_armed` equals the request that was asked for (`_target`). So an interrupt that comes
   late, when the body has ended or another call runs, does nothing.
2. An interrupt is raised once for each body: raising it disarms.
3. The interrupt may be raised after the body has returned and before `_disarm` is done. `run`
   therefore disarms a second time, and does not lose a value that the body has returned.
4. Inside `shield()` nothing is raised. When the outermost shield ends, an interrupt that is due is
   raised there.
5. Nothing is raised in a delicate place (`is_delicate`): where the exception would be swallowed, as
   in `__del__`, or would damage state of the whole process, such as a lock or a half-imported
   module. The watcher asks again 20 ms later, and finally with `insist`, which ignores this rule.

How the exception gets into the thread is the subclass's task:

- `SignalInterrupter` (prefork): `pthread_kill` sends `INTERRUPT_SIGNAL` to the main thread. Python
  calls the handler between two instructions there, and the handler raises.
- `thread_interrupt.ThreadInterrupter` (threads): CPython's asynchronous exception.
- `pools.steps.StepInterrupter` (async): the same for one step of a coroutine.
"""

import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any
from uuid import UUID

from mcp_app.execution.stopping.with_statements import is_entering

INTERRUPT_SIGNAL = signal.SIGUSR2
DELICATE_MODULES = frozenset({"logging", "importlib._bootstrap", "opentelemetry.sdk.trace"})
SWALLOWING_MODULES = frozenset({"asyncio.events", "asyncio.selector_events"})
"""Here an event loop is between two tasks: it would log the exception and go on."""


class ToolCancelled(BaseException):
    """Raised in a tool whose request was cancelled. Let it pass, or clean up and raise it again.

    It is a `BaseException`, so that `except Exception` does not suppress it.
    """


@dataclass(frozen=True, slots=True)
class Returned:
    """The body has returned a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The body has raised an error or a cancellation."""

    error: BaseException


class Interrupter(ABC):
    """Raises `ToolCancelled` in one thread, while it runs a body that is armed."""

    def __init__(self, ident: int | None) -> None:
        self._ident = ident
        self._armed: UUID | None = None
        self._target: UUID | None = None
        self._shields = 0
        self._insisting = False
        self.raised = False

    def run(self, request_id: UUID, body: Callable[[], Any]) -> Returned | Raised:
        """Call `body` while it is armed for `request_id`, and return its outcome.

        An exception of the body is returned. If the interrupt comes late, the body's value is not
        lost.
        """
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
            self._disarm()  # the only interrupt may have been raised in the first attempt
            return outcome or Raised(error)
        return outcome

    @abstractmethod
    def interrupt(self, request_id: UUID, *, insist: bool = False) -> None:
        """Ask for the interrupt. Safe in any thread; a body is interrupted once, however often this
        is called.

        It is not raised in a delicate place (see `is_delicate`). So call this again until `raised`,
        and at last with `insist`.
        """

    @property
    def armed(self) -> bool:
        """Whether a body runs that was not interrupted yet."""
        return self._armed is not None

    @property
    def shielded(self) -> bool:
        return self._shields > 0

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Put the interrupt off until the end of the block.

        If it may not be raised there, it has to be asked for again. Does nothing in other threads
        than the interrupter's, because they are not interrupted.
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
        """Allow an interrupt for `request_id` from now on."""

    def _disarm(self) -> None:
        """Allow no interrupt from now on."""
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
        """Return whether the interrupt was asked for and may be raised in `frame`."""
        return not self._shields and self._would_be_due(frame)

    def _would_be_due(self, frame: FrameType | None) -> bool:
        """Return the same without regard to shields."""
        if self._armed is None or self._armed != self._target:
            return False
        return self._insisting or not is_delicate(frame)


class SignalInterrupter(Interrupter):
    """Interrupts the main thread by a signal. Each process of a prefork pool has one."""

    def __init__(self) -> None:
        super().__init__(threading.main_thread().ident)

    def install(self) -> None:
        """Install the signal handler, in the main thread.

        It is installed after the fork, because billiard resets signals there.
        """
        if signal.getsignal(INTERRUPT_SIGNAL) != self._handle:
            signal.signal(INTERRUPT_SIGNAL, self._handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (INTERRUPT_SIGNAL,))

    def run(self, request_id: UUID, body: Callable[[], Any]) -> Returned | Raised:
        self.install()  # an earlier tool may have changed or blocked the signal
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
    """Return whether an exception that is raised in `frame` would be swallowed or do damage.

    Finalizers swallow exceptions. In other places the exception would leave shared state broken,
    such as a lock that stays taken or a module that is half imported. Frames outside the armed body
    are not examined.
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


class StopSignal:
    """Shows a tool that its call was cancelled, and lets the tool put the interrupt off.

    The watcher sets it, in its own thread. Setting it raises nothing in the tool.
    """

    def __init__(self, interrupter: Interrupter) -> None:
        self._interrupter = interrupter
        self._set = threading.Event()
        self._postponed: Callable[[], object] | None = None
        self.observed = False
        """Whether the tool has learned that its call was cancelled."""

    def set(self) -> None:
        self._set.set()

    @property
    def is_set(self) -> bool:
        return self._set.is_set()

    @property
    def is_shielded(self) -> bool:
        """Whether the tool is inside `shield`."""
        return self._interrupter.shielded

    def observe(self) -> bool:
        """Return whether the signal is set. If it is, remember that the tool knows."""
        self.observed = self.observed or self.is_set
        return self.observed

    def check(self) -> None:
        """Raise `ToolCancelled` if the signal is set and the tool is not inside `shield`."""
        if self.is_set and not self.is_shielded:
            self.observed = True
            raise ToolCancelled

    def pause(self, seconds: float) -> None:
        """Wait until the signal is set, but not longer than `seconds`.

        If a shield puts the cancellation off, wait the whole time, so that a loop that polls does
        not spin.
        """
        if self.is_set and self.is_shielded:
            time.sleep(seconds)
        else:
            self._set.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """Sleep, but raise `ToolCancelled` once the signal is set and no shield puts that off."""
        until = time.monotonic() + seconds
        self.pause(seconds)
        if self.is_shielded and (left := until - time.monotonic()) > 0:
            time.sleep(left)  # `pause` did not wait, because it is set; the block must go on
        self.check()

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Put off everything that would be raised in the block until its end."""
        try:
            with self._interrupter.shield():
                yield
        finally:
            if not self.is_shielded and (postponed := self._postponed) is not None:
                self._postponed = None
                self.when_unshielded(postponed)

    def when_unshielded(self, action: Callable[[], object]) -> None:
        """Call `action` now, or at the end of the current shield. In the tool's own thread.

        Does nothing if the tool was interrupted, because then it is cleaning up.
        """
        if self._interrupter.raised:
            return
        if self.is_shielded:
            self._postponed = action
        else:
            action()
