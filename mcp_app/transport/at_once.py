"""What an event loop need not wait for is done without a timer: most of what is received is there, and most writes go
at once.

Refuses to limit what it begins: whoever waits for the rest does.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class Begun(Generic[R]):
    """A coroutine that was begun here and now, as a part of the task that runs. To be awaited in the same task.

    Raises what the coroutine raised meanwhile.
    """

    __slots__ = ("_coroutine", "_first", "is_done", "result")

    result: R

    def __init__(self, awaitable: Awaitable[R]) -> None:
        self._coroutine = awaitable if isinstance(awaitable, Coroutine) else _awaited(awaitable)
        self._first: Any = None
        self.is_done = False
        """Whether it came to its end without waiting, with `result`."""
        try:
            self._first = self._coroutine.send(None)
        except StopIteration as end:
            self.is_done = True
            self.result = end.value

    def __await__(self) -> Generator[Any, Any, R]:
        if self.is_done:
            return self.result
        waits_for = self._first
        while True:
            resume: Callable[[], Any]
            try:
                resume = partial(self._coroutine.send, (yield waits_for))
            except BaseException as error:
                resume = partial(self._coroutine.throw, error)
            try:
                waits_for = resume()
            except StopIteration as end:
                result: R = end.value
                return result


async def _awaited(awaitable: Awaitable[R]) -> R:
    return await awaitable
