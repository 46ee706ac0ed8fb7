"""Run the coroutines of a shared event loop step by step, so that each step can be interrupted
alone.

Between two `await`s a coroutine has the loop's thread for itself. For such a step the interrupter
is armed, as it is for the body of a tool that has a thread of its own. While the coroutine waits,
no code of it runs; then its task is cancelled, and `driven` raises the interrupt in place of the
`CancelledError`. A coroutine that ignores that is closed and not resumed. An exception of one call
never ends the loop.
"""

import logging
import types
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from mcp_app.execution.stopping.interrupt import Raised, Returned, ToolCancelled
from mcp_app.execution.stopping.thread_interrupt import ThreadInterrupter

logger = logging.getLogger(__name__)


class LeftError(BaseException):
    """Carries an exception that would end the event loop, such as `SystemExit`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class StepInterrupter(ThreadInterrupter):
    """Interrupts the coroutines of one call: in the step that runs, or where they wait."""

    def __init__(self, thread: int, request_id: UUID) -> None:
        super().__init__(thread)
        self._request_id = request_id

    def step(self, advance: Callable[[], Any]) -> Returned | Raised:
        """Take one armed step and return its outcome.

        If the interrupt comes late, the yielded value is not lost.
        """
        outcome: Returned | Raised | None = None
        try:
            try:
                self._arm(self._request_id)
                outcome = advance()
            finally:
                self._disarm()
        except BaseException as error:
            self._disarm()  # the only interrupt may have been raised in the first attempt
            return outcome or Raised(error)
        return outcome

    def instead_of(self, error: BaseException) -> BaseException:
        """Return the interrupt in place of a cancellation, if it is due."""
        if isinstance(error, CancelledError) and self.is_due_at_await:
            self.struck()
            return ToolCancelled()
        return error

    @property
    def is_due_at_await(self) -> bool:
        """Whether the interrupt was asked for, was not raised, and is not put off."""
        return not self.raised and not self._shields and self._target == self._request_id

    def _arm(self, request_id: UUID) -> None:
        if not self.raised:
            super()._arm(request_id)


class Stepping(Protocol):
    """The call to which the coroutines belong."""

    interrupter: StepInterrupter
    is_over: bool
    abandoned: bool
    """Whether its coroutines must not be resumed."""

    def enter_step(self) -> None:
        """Called before each step."""

    def leave_step(self) -> None:
        """Called after each step."""


async def driven(call: Stepping, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run the coroutine, each step as a step of the call. Raises its exception, or `LeftError`."""
    if call.is_over:
        coroutine.close()
        raise CancelledError
    return await _stepped(call, coroutine)


@types.coroutine
def _stepped(call: Stepping, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    advance = partial(_sent, coroutine, None)
    while True:
        call.enter_step()
        outcome = call.interrupter.step(advance)
        call.leave_step()
        if isinstance(outcome, Raised):
            try:
                raise _outward(outcome.error)
            finally:
                del outcome, advance  # its traceback holds this frame
        if isinstance(outcome, _Ended):
            return outcome.value
        try:
            advance = partial(_sent, coroutine, (yield outcome.value))
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            advance = partial(_thrown, coroutine, call.interrupter.instead_of(error))
        if call.abandoned:
            _close(coroutine)
            raise ToolCancelled


class _Ended(Returned):
    """The coroutine has returned; it did not only yield."""


def _sent(coroutine: Coroutine[Any, Any, Any], value: Any) -> Returned:
    try:
        return Returned(coroutine.send(value))
    except StopIteration as end:
        return _Ended(end.value)


def _thrown(coroutine: Coroutine[Any, Any, Any], error: BaseException) -> Returned:
    try:
        return Returned(coroutine.throw(error))
    except StopIteration as end:
        return _Ended(end.value)


def _outward(error: BaseException) -> BaseException:
    return LeftError(error) if isinstance(error, SystemExit | KeyboardInterrupt) else error


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        coroutine.close()
    except BaseException as error:
        logger.debug("an abandoned coroutine did not end by itself: %r", error)
