"""Sends a heartbeat every `VITAL_SIGNS_INTERVAL` to clients that asked for debug messages.

A heartbeat is a log message. On a call's own stream it reports whether the worker of that call is
alive. Legacy connections, which are a session's GET stream or standard streams, also get heartbeats
about the whole site. One query serves all heartbeats of a server process. If the vital signs cannot
be read, that heartbeat is left out.
Source: 2026-07-28 and 2025-11-25 server/utilities/logging.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import vital_signs
from mcp_app.lifecycle.liveness.vital_signs import SITE, Patient, Signs
from mcp_app.protocol import notifications
from mcp_app.transport.process.threads import Threads

logger = logging.getLogger(__name__)

LOGGER_NAME: Final = "heartbeat"
LEVEL: Final = "debug"
FRESH: Final = 0.25
"""The part of an interval for which one query serves all heartbeats that are due."""


class Heartbeats:
    """Reads the vital signs for one server process. Belongs to one event loop."""

    def __init__(self, rows: Threads) -> None:
        self._rows = rows
        self._patients: Counter[Patient] = Counter()
        self._covered: frozenset[Patient] = frozenset()
        self._read_at = -math.inf
        self._reading: asyncio.Future[dict[Patient, Signs]] | None = None

    @contextmanager
    def of(self, request_id: UUID, *, since: float) -> Iterator["Heartbeat"]:
        """The heartbeats of one call, counted from the monotonic time `since`."""
        heartbeat = Heartbeat(self, request_id)
        with self._among_the_read(request_id):
            heartbeat.begin(since)
            yield heartbeat

    @contextmanager
    def of_connection(self) -> Iterator["Heartbeat"]:
        """The heartbeats of one legacy connection. None is due before it wants them."""
        with self._among_the_read(SITE):
            yield Heartbeat(self, SITE)

    async def signs(self, patient: Patient) -> Signs | None:
        """Return the signs of a call or of the site.

        Returns `None` if the call has ended, or if the signs cannot be read in time.
        """
        try:
            async with asyncio.timeout(settings.VITAL_SIGNS_INTERVAL):
                return (await asyncio.shield(self._read(patient))).get(patient)
        except Exception as error:
            logger.error("a heartbeat notification is skipped, because the rows could not be read: %r", error)
            return None

    @contextmanager
    def _among_the_read(self, patient: Patient) -> Iterator[None]:
        # Counted: a call's stream that is resumed here has two connections for a moment.
        self._patients[patient] += 1
        try:
            yield
        finally:
            self._patients[patient] -= 1
            self._patients += Counter()  # drops those at zero

    def _read(self, patient: Patient) -> "asyncio.Future[dict[Patient, Signs]]":
        now = time.monotonic()
        fresh = now - self._read_at < settings.VITAL_SIGNS_INTERVAL * FRESH
        if self._reading is None or not fresh or patient not in self._covered:
            self._read_at = now
            self._covered = frozenset(self._patients)
            self._reading = self._rows.start(vital_signs.read, self._covered)
        return self._reading


class Heartbeat:
    """The heartbeats that one client receives, either for one call or for its connection.

    A connection's heartbeats report that its server process and the site are alive. Until a worker
    has been seen they report that there is none. From then on they are sent only while a worker is
    alive, so their absence means that the site does not run tools.
    """

    def __init__(self, heartbeats: Heartbeats, patient: Patient) -> None:
        self._heartbeats = heartbeats
        self._patient = patient
        self._due_at = math.inf
        self._was_worker_seen = False

    def begin(self, since: float) -> None:
        """Make the first heartbeat due one interval after this monotonic time."""
        self._due_at = since + settings.VITAL_SIGNS_INTERVAL

    def want(self, wanted: bool) -> None:
        """Begin, unless it has begun, or end."""
        if not wanted:
            self._due_at = math.inf
        elif self._due_at == math.inf:
            self.begin(time.monotonic())

    @property
    def wait(self) -> float:
        """Seconds until the next heartbeat is due; infinite if the client wants none."""
        return max(0.0, self._due_at - time.monotonic())

    async def take(self) -> dict[str, Any] | None:
        """Return the heartbeat that is due as a notification, or `None` if it is left out."""
        self._due_at = max(self._due_at + settings.VITAL_SIGNS_INTERVAL, time.monotonic())
        signs = await self._heartbeats.signs(self._patient)
        if signs is None:
            return None
        is_worker_alive = signs.worker == "alive"
        if self._patient == SITE and self._was_worker_seen and not is_worker_alive:
            return None
        self._was_worker_seen = self._was_worker_seen or is_worker_alive
        return notifications.log_message(LEVEL, signs.data, LOGGER_NAME)
