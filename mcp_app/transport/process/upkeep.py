"""Periodic work of a server process while clients wait in it: its heartbeat, and supervision.

Without a heartbeat other processes would take its clients for gone. Without supervision a client
could wait for a call whose worker has died. A failing database is logged, and the work is tried
again.
"""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final

from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.supervision import dead_servers, rounds
from mcp_app.transport.process.threads import SilentDatabaseError, Threads

logger = logging.getLogger(__name__)

SHORT_ROUND_SECONDS: Final = 1.0


class Upkeep:
    """Sends heartbeats and supervises, on timers, between `begin` and `end`."""

    def __init__(self, identity: Identity, rows: Threads, background: Threads) -> None:
        self._identity = identity
        self._rows = rows
        self._background = background
        self._beaten_at = float("-inf")
        self._supervised_at = float("-inf")
        self._tasks: list[asyncio.Task[None]] = []

    async def ensure_alive(self) -> None:
        """Make sure that this process counts as alive, before a row names it.

        Raises `django.db.Error`.

        The first time, also cancel the calls of server processes on this host that were killed.
        """
        is_first = self._beaten_at == float("-inf")
        if time.monotonic() - self._beaten_at > settings.LOST_AFTER / 2:
            await self._beat()
        if is_first:
            await self._background.run(dead_servers.cancel_calls_of_dead_servers)

    async def supervise(self) -> None:
        """Supervise now, unless this was done recently.

        This is for clients that poll their calls instead of waiting for them. It takes at most
        `SHORT_ROUND_SECONDS`.
        """
        if time.monotonic() - self._supervised_at > settings.SUPERVISION_INTERVAL:
            self._supervised_at = time.monotonic()
            with suppress(SilentDatabaseError):
                await self._background.run(rounds.take_turn, self._identity, within=SHORT_ROUND_SECONDS)

    def begin(self) -> None:
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [
                loop.create_task(self._beat_regularly(), name="mcp-heartbeat"),
                loop.create_task(self._supervise_regularly(), name="mcp-supervision"),
            ]

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _beat(self) -> None:
        began_at = time.monotonic()
        # A dead connection blocks only its own thread: the next heartbeat uses another one.
        await self._rows.run(processes.beat, self._identity, within=settings.LOST_AFTER / 4)
        self._beaten_at = began_at

    async def _beat_regularly(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._beaten_at + settings.HEARTBEAT_INTERVAL - time.monotonic()))
            try:
                await self._beat()
            except Exception as error:
                await _pause(error)

    async def _supervise_regularly(self) -> None:
        while True:
            await asyncio.sleep(settings.SUPERVISION_INTERVAL)
            self._supervised_at = time.monotonic()
            try:
                await self._background.run(rounds.take_turn, self._identity)
            except Exception as error:
                await _pause(error)


async def _pause(error: Exception) -> None:
    logger.error("upkeep failed and is tried again: %s", error)
    await asyncio.sleep(settings.HEARTBEAT_INTERVAL)
