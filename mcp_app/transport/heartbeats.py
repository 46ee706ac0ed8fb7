"""The heartbeat: every `VITAL_SIGNS_INTERVAL` a client that asked for debug messages hears who is at work on its call.

Owns when a beat is due and how it is worded on the wire; what is read for one call is read for all that have a beat.
Refuses to fail a call over it: signs that cannot be read are a beat left out.
Source: 2026-07-28 server/utilities/logging.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import vital_signs
from mcp_app.lifecycle.vital_signs import VitalSigns
from mcp_app.protocol import notifications
from mcp_app.transport.threads import Threads

logger = logging.getLogger(__name__)

LOGGER_NAME: Final = "heartbeat"
LEVEL: Final = "debug"
FRESH: Final = 0.25
"""The part of an interval for which a reading serves every call whose beat is due."""


class Heartbeats:
    """One server process's reading of vital signs. Belongs to one event loop."""

    def __init__(self, rows: Threads) -> None:
        self._rows = rows
        self._calls: set[UUID] = set()
        self._covered: frozenset[UUID] = frozenset()
        self._read_at = -math.inf
        self._reading: asyncio.Future[dict[UUID, VitalSigns]] | None = None

    @contextmanager
    def of(self, request_id: UUID, *, since: float, wanted: bool) -> Iterator["Heartbeat"]:
        """The beats of one call, counted from the monotonic time `since`; none are due unless they are `wanted`."""
        if wanted:
            self._calls.add(request_id)
        try:
            yield Heartbeat(self, request_id, since + settings.VITAL_SIGNS_INTERVAL if wanted else math.inf)
        finally:
            self._calls.discard(request_id)

    async def signs(self, request_id: UUID) -> VitalSigns | None:
        """The signs of one call; None when it has ended or nothing can be read in time."""
        try:
            async with asyncio.timeout(settings.VITAL_SIGNS_INTERVAL):
                return (await asyncio.shield(self._read(request_id))).get(request_id)
        except Exception as error:
            logger.error("a heartbeat is left out, the rows cannot be read: %r", error)
            return None

    def _read(self, request_id: UUID) -> "asyncio.Future[dict[UUID, VitalSigns]]":
        now = time.monotonic()
        fresh = now - self._read_at < settings.VITAL_SIGNS_INTERVAL * FRESH
        if self._reading is None or not fresh or request_id not in self._covered:
            self._read_at = now
            self._covered = frozenset(self._calls)
            self._reading = self._rows.start(vital_signs.read, self._covered)
        return self._reading


class Heartbeat:
    """One call's beats."""

    def __init__(self, heartbeats: Heartbeats, request_id: UUID, due_at: float) -> None:
        self._heartbeats = heartbeats
        self._request_id = request_id
        self._due_at = due_at

    @property
    def wait(self) -> float:
        """Seconds until the next beat is due; infinite for a client that wants none."""
        return max(0.0, self._due_at - time.monotonic())

    async def take(self) -> dict[str, Any] | None:
        """The beat that is due, as a notification; None when there is nothing to vouch for."""
        self._due_at = max(self._due_at + settings.VITAL_SIGNS_INTERVAL, time.monotonic())
        signs = await self._heartbeats.signs(self._request_id)
        return None if signs is None else notifications.log_message(LEVEL, signs.data, LOGGER_NAME)
