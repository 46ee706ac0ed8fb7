"""SIGTERM and SIGINT: the process drains first, then whoever handled the signal before does what it always did.

For servers that know nothing of draining (uvicorn, Daphne). A handler that lives in the event loop (Hypercorn's, our
own Daphne's) cannot be held back: there both begin at once. A second signal is passed on without waiting. Refuses to
act outside the main thread.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

HANDLED = (signal.SIGTERM, signal.SIGINT)

Handler = Callable[[int, FrameType | None], Any] | int | None


def chain(loop: asyncio.AbstractEventLoop, drain: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `drain` on `loop` before the handlers that are in place now; call it on the loop's own thread."""
    if threading.current_thread() is threading.main_thread():
        for number in HANDLED:
            _Chained(loop, drain, signal.Signals(number)).install()


class _Chained:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        drain: Callable[[], Coroutine[Any, Any, None]],
        number: signal.Signals,
    ) -> None:
        self._loop = loop
        self._drain = drain
        self._number = number
        self._previous: Handler = signal.SIG_DFL
        self._draining: asyncio.Task[None] | None = None
        self._signalled = False

    def install(self) -> None:
        previous = signal.getsignal(self._number)
        if previous is None or previous == signal.SIG_IGN:
            return
        self._previous = previous
        signal.signal(self._number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signalled or not self._loop.is_running():
            self._pass_on(frame)
            return
        self._signalled = True
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._draining = self._loop.create_task(self._drain(), name=f"mcp-drain-{self._number.name}")
        self._draining.add_done_callback(lambda task: self._pass_on(None))

    def _pass_on(self, frame: FrameType | None) -> None:
        if callable(self._previous):
            self._previous(self._number, frame)
        else:
            signal.signal(self._number, signal.SIG_DFL)
            os.kill(os.getpid(), self._number)
