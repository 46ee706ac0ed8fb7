"""The cancellations that a server process asks for, stored by group commit.

When many clients disconnect at once, all their cancellations need only a few transactions. Queued
and running calls are cancelled together, so that the slot of a stopped call does not go to a queued
call whose client has also left.

A cancellation that cannot be stored is retried (`RETRY_DELAYS`). Supervision cancels only the calls
of dead server processes, so without it this call would run to its deadline. Clients' attempts that
change nothing are counted, and audited in summaries if there are many
(`lifecycle.cancellation.throttling`).
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

RETRY_DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between tries. Together they are longer than a database is usually away."""


class CancellationQueue:
    """Stores cancellations in groups. Use it in one event loop; `threads` wait for the database and the broker."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._group_commit: GroupCommit[CancellationRequest, None] = GroupCommit(
            self._run_in_thread, self._store, max_jobs=1, max_items=cancellation.TOGETHER
        )
        self._throttle = BurstThrottle()
        self._summary_task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Write the audit summaries that are due. Waits for no cancellation."""
        if self._summary_task is not None:
            self._summary_task.cancel()
            await asyncio.wait([self._summary_task])
            try:
                await self._threads.run(partial(self._throttle.append_summaries, all_windows=True))
            except Exception as error:
                logger.error("the number of further cancellation attempts could not be stored in the audit: %s", error)

    async def cancel(self, ask: CancellationRequest) -> bool:
        """Store a cancellation and notify the workers (`cancellation.cancel_all`).

        Returns `False` if all tries have failed. If the calling coroutine is cancelled, a try that has begun
        goes on, but is not repeated.
        """
        for delay in (*RETRY_DELAYS, None):
            try:
                await asyncio.shield(self._group_commit.put(ask))
            except Exception as error:
                logger.error("request %s could not be cancelled (%s): %s", ask.request_id, ask.cause, error)
                if delay is not None:
                    await asyncio.sleep(delay)
            else:
                return True
        logger.critical(
            "request %s was not cancelled (%s): it runs to its end or its deadline", ask.request_id, ask.cause
        )
        return False

    def _run_in_thread(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        running = self._threads.start(job)
        running.add_done_callback(lambda _: self._ensure_summary_task())
        return running

    def _store(self, asks: Sequence[CancellationRequest]) -> Sequence[Exception | None]:
        """Store all in one transaction. If that fails although the database can be reached, store each by itself.

        Return the error of each, or `None`.
        """
        try:
            cancellation.cancel_all(asks, throttle=self._throttle)
        except Exception as error:
            if len(asks) == 1 or isinstance(error, OperationalError | InterfaceError):
                return [error] * len(asks)
            return [outcome for ask in asks for outcome in self._store([ask])]
        return [None] * len(asks)

    def _ensure_summary_task(self) -> None:
        if self._throttle.wait is not None and (self._summary_task is None or self._summary_task.done()):
            self._summary_task = asyncio.get_running_loop().create_task(
                self._write_summaries(), name="mcp-audit-summaries"
            )

    async def _write_summaries(self) -> None:
        while (wait := self._throttle.wait) is not None:
            await asyncio.sleep(wait)
            try:
                await self._threads.run(self._throttle.append_summaries)
            except Exception as error:
                logger.error(
                    "the number of further cancellation attempts could not be stored in the audit, trying again: %s",
                    error,
                )
                await asyncio.sleep(RETRY_DELAYS[-1])
