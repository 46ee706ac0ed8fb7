"""The steps of coroutines that share an event loop: each is one call's, and interrupted as that call's alone.

Between two `await`s a coroutine has the loop's thread to itself, armed for its call as a tool's body is in a thread of
its own; while it waits nothing of it runs, and the interrupt is raised where it awaits. What takes no notice of that is
closed and not resumed. Refuses to let what one call raises end the loop.
"""

import logging
import types
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from mcp_app.execution.interrupt import Raised, Returned, ToolCancelled
from mcp_app.execution.thread_interrupt import ThreadInterrupter

logger = logging.getLogger(__name__)


class LeftError(BaseException):
    """A coroutine raised what would end the event loop, `SystemExit` for one."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class StepInterrupter(ThreadInterrupter):
    """Interrupts the coroutines of one call: the step under way, or what waits."""

    def __init__(self, thread: int, request_id: UUID) -> None:
        super().__init__(thread)
        self._request_id = request_id

    def step(self, advance: Callable[[], Any]) -> Returned | Raised:
        """Take one step, armed; what is due is raised in it once. A late interrupt does not lose what it yields."""
        outcome: Returned | Raised | None = None
        try:
            try:
                self._arm(self._request_id)
                outcome = advance()
            finally:
                self._disarm()
        except BaseException as error:
            self._disarm()  # the interrupt, of which there is one, may have struck in the first attempt
            return outcome or Raised(error)
        return outcome

    def instead_of(self, error: BaseException) -> BaseException:
        """What is raised where a coroutine awaits: the interrupt in place of a cancellation, where it is due."""
        if isinstance(error, CancelledError) and self.is_due_at_await:
            self.struck()
            return ToolCancelled()
        return error

    @property
    def is_due_at_await(self) -> bool:
        """Whether the interrupt was asked for, has not been raised, and no shield puts it off."""
        return not self.raised and not self._shields and self._target == self._request_id

    def _arm(self, request_id: UUID) -> None:
        if not self.raised:
            super()._arm(request_id)


class Stepping(Protocol):
    """The call whose coroutines take the steps."""

    interrupter: StepInterrupter
    is_over: bool
    abandoned: bool
    """Whether none of its coroutines is to be resumed."""

    def enter_step(self) -> None:
        """One begins."""

    def leave_step(self) -> None:
        """It has ended."""


async def driven(call: Stepping, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The coroutine, its steps taken as the call's. Raises what it raises, or LeftError."""
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
    """The coroutine came to its end, and did not merely yield."""


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
        logger.debug("a coroutine that is not resumed any more did not end by itself: %r", error)
