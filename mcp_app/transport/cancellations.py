"""The cancellations that a server process asks for: those that come together are stored together.

A crowd that leaves at once costs a few transactions, and whoever comes meanwhile does not wait behind each of them.
Insists: nobody else would stop the work of a client that left a living server process. What clients ask in vain is
audited within bounds (`lifecycle.bursts`).
"""

import asyncio
import logging
from functools import partial

from mcp_app.lifecycle import cancellation
from mcp_app.lifecycle.bursts import Bursts
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.transport.threads import Threads

logger = logging.getLogger(__name__)

TOGETHER = 16
"""At most; other writers wait for the whole of such a transaction."""
DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds after each attempt that failed: together as long as a database may reasonably be away."""


class Cancellations:
    """Belongs to one event loop. `threads` is where the database and the broker are waited for."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiting: list[tuple[Ask, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._bursts = Bursts()
        self._summing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Audit what was only counted so far."""
        if self._summing is not None:
            self._summing.cancel()
            await asyncio.wait([self._summing])
            try:
                await self._threads.run(partial(self._bursts.append_summaries, all_windows=True))
            except Exception as error:
                logger.error("attempts to cancel that were counted are not audited: %s", error)

    async def cancel(self, ask: Ask) -> None:
        """Have `ask` stored and its workers told; returns when that is so, or was tried for long enough."""
        for delay in DELAYS:
            try:
                await asyncio.shield(self._submit(ask))
            except Exception as error:
                logger.error(
                    "request %s could not be cancelled (%s), trying again: %s", ask.request_id, ask.cause, error
                )
                await asyncio.sleep(delay)
            else:
                return
        logger.critical("request %s was not cancelled (%s): it runs to its end or deadline", ask.request_id, ask.cause)

    def _submit(self, ask: Ask) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        stored.add_done_callback(_retrieve)
        self._waiting.append((ask, stored))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run(), name="mcp-cancellations")
        return stored

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            try:
                asks = [ask for ask, _ in batch]
                await self._threads.run(partial(cancellation.cancel_all, asks, bursts=self._bursts))
            except Exception as error:
                _settle(batch, error)
            else:
                _settle(batch, None)
                self._sum_up_later()

    def _sum_up_later(self) -> None:
        if self._bursts.wait is not None and (self._summing is None or self._summing.done()):
            self._summing = asyncio.get_running_loop().create_task(self._sum_up(), name="mcp-bursts")

    async def _sum_up(self) -> None:
        while (wait := self._bursts.wait) is not None:
            await asyncio.sleep(wait)
            try:
                await self._threads.run(self._bursts.append_summaries)
            except Exception as error:
                logger.error("attempts to cancel that were counted could not be audited, trying again: %s", error)
                await asyncio.sleep(DELAYS[-1])


def _retrieve(stored: "asyncio.Future[None]") -> None:
    """Whoever asked may be gone; a failure was logged all the same."""
    if not stored.cancelled():
        stored.exception()


def _settle(batch: list[tuple[Ask, "asyncio.Future[None]"]], error: Exception | None) -> None:
    for _, stored in batch:
        if stored.done():
            continue
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)
