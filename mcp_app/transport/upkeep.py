"""What a server process owes while clients wait in it: a heartbeat, so that its clients are not taken for gone, and
supervision, so that their calls are not waited for in vain.

Refuses to stop for a failing database: it is logged and tried again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from mcp_app.conf import settings
from mcp_app.lifecycle import processes, supervision
from mcp_app.lifecycle.processes import Identity
from mcp_app.transport.threads import SilentDatabaseError, Threads

logger = logging.getLogger(__name__)

SHORT_ROUND: Final = 1.0
"""Seconds."""


class Upkeep:
    """Beats and supervises on a timer between `begin` and `end`; silent otherwise."""

    def __init__(self, identity: Identity, rows: Threads, background: Threads) -> None:
        self._identity = identity
        self._rows = rows
        self._background = background
        self._beaten_at = float("-inf")
        self._supervised_at = float("-inf")
        self._tasks: list[asyncio.Task[None]] = []

    async def vouch(self) -> None:
        """Make sure that this process counts as alive: before a row names it. Raises django.db.Error."""
        if time.monotonic() - self._beaten_at > settings.LOST_AFTER / 2:
            await self._beat()

    async def supervise(self) -> None:
        """Supervise now, unless that was done lately: for clients that ask for their calls instead of waiting here.

        They do not wait for more than a short round.
        """
        if time.monotonic() - self._supervised_at > settings.SUPERVISION_INTERVAL:
            self._supervised_at = time.monotonic()
            with suppress(SilentDatabaseError):
                await self._background.run_within(SHORT_ROUND, supervision.take_turn, self._identity)

    def begin(self) -> None:
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [
                loop.create_task(_every(self._beat, self._until_beat), name="mcp-heartbeat"),
                loop.create_task(_every(self._supervise, _until_supervision), name="mcp-supervision"),
            ]

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _beat(self) -> None:
        began_at = time.monotonic()
        # A connection that the network forgot holds up its thread alone: the next beat has another one.
        await self._rows.run_within(settings.LOST_AFTER / 4, processes.beat, self._identity)
        self._beaten_at = began_at

    async def _supervise(self) -> None:
        self._supervised_at = time.monotonic()
        await self._background.run(supervision.take_turn, self._identity)

    def _until_beat(self) -> float:
        interval: float = settings.HEARTBEAT_INTERVAL
        return max(0.0, self._beaten_at + interval - time.monotonic())


def _until_supervision() -> float:
    return float(settings.SUPERVISION_INTERVAL)


async def _every(step: Callable[[], Coroutine[Any, Any, None]], wait: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(wait())
        try:
            await step()
        except Exception as error:
            logger.error("upkeep failed and is tried again: %s", error)
            await asyncio.sleep(settings.HEARTBEAT_INTERVAL)
