"""A pool of threads for blocking work, which no process waits for at its end: daemons.

A thread cannot be stopped. `concurrent.futures` joins its threads when the interpreter exits, so that one that waits
for a database that answers nothing would keep a server process for ever. Which thread does a job is the relay's.
Refuses to wait for a thread that hangs.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

from django.db import connections

from mcp_app.relay import LONG, Relay

R = TypeVar("R")


class _Outcomes:
    """What threads have done for one event loop, which is woken once for all that came until it looks.

    Holds its loop by what is done alone: a loop that ended is not kept.
    """

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_woken = False

    def add(self, future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
        """From a thread."""
        self._done.append((future, result, error))
        if not self._is_woken:
            self._is_woken = True
            try:
                future.get_loop().call_soon_threadsafe(self._settle)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self._done.clear()

    def _settle(self) -> None:
        self._is_woken = False  # before it looks: what comes after that wakes the loop again
        while self._done:
            future, result, error = self._done.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)


class _Job(NamedTuple):
    function: Callable[[], Any]
    future: "asyncio.Future[Any]"
    outcomes: _Outcomes

    def do(self) -> None:
        if self.future.cancelled():
            return
        try:
            result = self.function()
        except BaseException as error:
            self.outcomes.add(self.future, None, error)
        else:
            self.outcomes.add(self.future, result, None)


class DaemonThreads:
    """A pool of at most `size` threads, each with its own database connections: a `Relay` for event loops."""

    def __init__(self, name: str, size: int) -> None:
        self._relay = Relay(name, size, end=connections.close_all)
        self._outcomes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Outcomes] = WeakKeyDictionary()
        self._looks: ReferenceType[asyncio.AbstractEventLoop] | None = None
        """The loop that is to have the relay look."""

    def start(self, function: Callable[[], R]) -> "asyncio.Future[R]":
        """Run `function` in a thread; the future of its result, on the running loop. Raises RuntimeError once closed.

        Cancelled before it began, it never begins.
        """
        loop = asyncio.get_running_loop()
        if (outcomes := self._outcomes.get(loop)) is None:
            outcomes = self._outcomes[loop] = _Outcomes()
        future: asyncio.Future[R] = loop.create_future()
        is_to_look = self._relay.put(_Job(function, future, outcomes).do)
        if is_to_look or (self._looks is not None and self._looks() is not loop):  # that loop may have ended
            self._looks = ref(loop)
            loop.call_later(LONG, self._look, loop)
        return future

    async def close(self, seconds: float) -> int:
        """End the threads and their database connections, once what is queued has run; how many have not in time."""
        give_up_at = time.monotonic() + seconds
        while running := [ended for ended in self._relay.close() if not ended.done()]:
            if (left := give_up_at - time.monotonic()) <= 0:
                break
            _, waiting = await asyncio.wait([asyncio.wrap_future(each) for each in running], timeout=left)
            for each in waiting:
                each.cancel()  # or its thread's end would call into a loop that is closed
        return len(running)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._looks is None or self._looks() is not loop:
            return
        if self._relay.look():
            loop.call_later(LONG, self._look, loop)
        else:
            self._looks = None
