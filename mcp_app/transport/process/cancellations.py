"""The cancellations that a server process asks for, stored by group commit.

When many clients leave at once, that costs a few transactions. Their queued calls are cancelled
together with their running ones, so that no worker begins a call whose client has left.

A cancellation that cannot be stored is retried, because nothing else would stop the work of a
client that left a living server process. Attempts of clients that change nothing are audited within
bounds (`lifecycle.cancellation.throttling`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db import InterfaceError, OperationalError

from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.cancellation.throttling import BurstThrottle
from mcp_app.transport.process.threads import GroupCommit, Threads

logger = logging.getLogger(__name__)

DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds after each failed attempt; together as long as a database may reasonably be away."""


class CancellationQueue:
    """Belongs to one event loop. `threads` wait for the database and the broker."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._group_commit: GroupCommit[CancellationRequest, None] = GroupCommit(
            self._start, self._store, max_jobs=1, max_items=cancellation.TOGETHER
        )
        self._throttle = BurstThrottle()
        self._summing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Audit the attempts that were only counted so far."""
        if self._summing is not None:
            self._summing.cancel()
            await asyncio.wait([self._summing])
            try:
                await self._threads.run(partial(self._throttle.append_summaries, all_windows=True))
            except Exception as error:
                logger.error("counted attempts to cancel were not stored in the audit: %s", error)

    async def cancel(self, ask: CancellationRequest) -> bool:
        """Store a cancellation and notify the workers.

        Returns `False` if all attempts (`DELAYS`) have failed.

        If this is cancelled, an attempt that has begun is still completed.
        """
        for delay in DELAYS:
            try:
                await asyncio.shield(self._group_commit.put(ask))
            except Exception as error:
                logger.error(
                    "request %s could not be cancelled (%s), trying again: %s", ask.request_id, ask.cause, error
                )
                await asyncio.sleep(delay)
            else:
                return True
        logger.critical(
            "request %s was not cancelled (%s): it runs to its end or its deadline", ask.request_id, ask.cause
        )
        return False

    def _start(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        stored = self._threads.start(job)
        stored.add_done_callback(lambda _: self._sum_up_later())
        return stored

    def _store(self, asks: Sequence[CancellationRequest]) -> Sequence[Exception | None]:
        """Store all in one transaction.

        If the database rejects that, store one by one; if it is away, do not.
        """
        try:
            cancellation.cancel_all(asks, bursts=self._throttle)
        except Exception as error:
            if len(asks) == 1 or isinstance(error, OperationalError | InterfaceError):
                return [error] * len(asks)
            return [outcome for ask in asks for outcome in self._store([ask])]
        return [None] * len(asks)

    def _sum_up_later(self) -> None:
        if self._throttle.wait is not None and (self._summing is None or self._summing.done()):
            self._summing = asyncio.get_running_loop().create_task(self._sum_up(), name="mcp-bursts")

    async def _sum_up(self) -> None:
        while (wait := self._throttle.wait) is not None:
            await asyncio.sleep(wait)
            try:
                await self._threads.run(self._throttle.append_summaries)
            except Exception as error:
                logger.error("counted attempts to cancel could not be stored in the audit, trying again: %s", error)
                await asyncio.sleep(DELAYS[-1])
