"""Drains a server process before it ends.

Listen streams get their last message, and calls end or are cancelled. Draining takes a bounded time.
It starts in one of three ways, whichever comes first:

1. `mcp serve` awaits `drain` before it stops its Daphne.
2. Web servers that support ASGI's lifespan protocol (uvicorn, Hypercorn) wait for `drain` there.
3. SIGTERM and SIGINT start it for web servers that do not drain (uvicorn, Daphne). The previous
   signal handler runs when draining has ended. A handler inside the event loop (Hypercorn's, our
   own Daphne's) cannot be delayed, so there both start at once.

A second signal is passed on immediately. A second `drain` waits for the first.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from mcp_app import descriptors
from mcp_app.conf import settings
from mcp_app.transport.process.admission import Admission

logger = logging.getLogger(__name__)

CLOSING_SECONDS: Final = 2.0
"""The time for reads to end, and for listen streams to write their last message."""
STOPPING_SECONDS: Final = 10.0
"""The time for cancelled calls to stop. The default grace periods of the ladder fit in twice."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

Stop = Callable[[], Coroutine[Any, Any, None]]
_Handler = Callable[[int, FrameType | None], Any] | int | None

_LAST_ANSWERS: Final = ("lifespan.startup.failed", "lifespan.shutdown.complete", "lifespan.shutdown.failed")
_stops: WeakKeyDictionary[asyncio.AbstractEventLoop, Stop] = WeakKeyDictionary()


def stop_with(stop: Stop) -> None:
    """Run `stop`, once or more, when the process of the running event loop ends."""
    loop = asyncio.get_running_loop()
    _stops[loop] = stop
    chain_signals(loop, stop)


async def drain() -> None:
    """Stop the server of the running event loop, if it has one.

    Bounded by `DRAIN_SECONDS` and the constants above. Supervision finishes what is left.
    """
    stop = _stops.get(asyncio.get_running_loop())
    if stop is not None:
        await stop()


async def drain_streams(admission: Admission) -> None:
    """Admit no more requests and end all streams.

    Calls that run after `DRAIN_SECONDS` are cancelled.
    """
    admission.draining = True
    for waiting in (*admission.listeners.open, *admission.asking.open):
        waiting.end()
    if not await admission.calls.wait_until_empty(settings.DRAIN_SECONDS):
        running = list(admission.calls.open)
        logger.info("shutting down: %d calls are still running and are cancelled", len(running))
        await asyncio.gather(*(call.cancel_for_shutdown() for call in running), return_exceptions=True)
        if not await admission.calls.wait_until_empty(STOPPING_SECONDS):
            logger.warning("shutting down: %d calls have not stopped yet", len(admission.calls.open))
    await admission.reads.wait_until_empty(CLOSING_SECONDS)
    await admission.asking.wait_until_empty(CLOSING_SECONDS)
    await admission.listeners.wait_until_empty(CLOSING_SECONDS)


async def lifespan(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve the ASGI lifespan protocol.

    It warns about a low limit of open files at startup, and drains at shutdown.
    """
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            if (shortage := descriptors.shortage(settings.MAX_CONNECTIONS)) is not None:
                logger.warning(shortage)
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await drain()
            await send({"type": "lifespan.shutdown.complete"})
            return


def lifespan_around(site: Any) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """Return a lifespan application around the site's own.

    The site's starts up first and shuts down last.

    A site without lifespan support, such as Django's application, raises or returns before it
    answers. Then `lifespan` answers instead.
    """

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        last: dict[str, Any] = {}  # of all messages in both directions

        async def receive_for_site() -> dict[str, Any]:
            nonlocal last
            message: dict[str, Any] = await receive()
            if message["type"] == "lifespan.shutdown":
                await drain()
            last = message
            return message

        async def send_for_site(answer: dict[str, Any]) -> None:
            nonlocal last
            last = answer
            await send(answer)

        async def receive_unanswered() -> dict[str, Any]:
            nonlocal last
            if last.get("type") in ("lifespan.startup", "lifespan.shutdown"):
                unanswered, last = last, {}
                return unanswered
            message: dict[str, Any] = await receive()
            return message

        try:
            await site(scope, receive_for_site, send_for_site)
        except Exception:
            if last:
                raise
        if last.get("type") not in _LAST_ANSWERS:
            await lifespan(scope, receive_unanswered, send)

    return application


def chain_signals(loop: asyncio.AbstractEventLoop, stop: Stop) -> None:
    """Run `stop` on `loop` before the signal handlers that are installed now.

    Call it on the thread of the loop. Does nothing outside the main thread, where Python allows no
    signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        previous = signal.getsignal(number)
        if previous is not None and previous != signal.SIG_IGN:
            signal.signal(number, _ChainedHandler(loop, stop, number, previous))


class _ChainedHandler:
    """A signal handler that runs `stop` before the handler that it replaces."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: Stop, number: signal.Signals, previous: _Handler) -> None:
        self._loop = loop
        self._stop = stop
        self._number = number
        self._previous = previous
        self._stopping: asyncio.Task[None] | None = None
        self._is_signalled = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_signalled or not self._loop.is_running():
            self._pass_on(frame)
            return
        self._is_signalled = True
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._stopping = self._loop.create_task(self._stop(), name=f"mcp-drain-{self._number.name}")
        self._stopping.add_done_callback(lambda task: self._pass_on(None))

    def _pass_on(self, frame: FrameType | None) -> None:
        if callable(self._previous):
            self._previous(self._number, frame)
        else:
            signal.signal(self._number, signal.SIG_DFL)
            os.kill(os.getpid(), self._number)
