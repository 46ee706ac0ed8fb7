"""The heartbeat: every `VITAL_SIGNS_INTERVAL` a client that asked for debug messages hears who is at work.

On a call's own stream it is about that call. Outside any request only legacy connections have one, about the site: a
session's GET stream, standard streams. Owns when a beat is due and how it is worded on the wire; what is read for one
is read for all that have a beat. It ends with what it vouches for: a call's with the call, a connection's when the
workers that it told of are gone. Refuses to fail anything over it: signs that cannot be read are a beat left out.
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
from mcp_app.lifecycle import vital_signs
from mcp_app.lifecycle.vital_signs import SITE, Patient, Signs
from mcp_app.protocol import notifications
from mcp_app.transport.threads import Threads

logger = logging.getLogger(__name__)

LOGGER_NAME: Final = "heartbeat"
LEVEL: Final = "debug"
FRESH: Final = 0.25
"""The part of an interval for which a reading serves everybody whose beat is due."""


class Heartbeats:
    """One server process's reading of vital signs. Belongs to one event loop."""

    def __init__(self, rows: Threads) -> None:
        self._rows = rows
        self._patients: Counter[Patient] = Counter()
        self._covered: frozenset[Patient] = frozenset()
        self._read_at = -math.inf
        self._reading: asyncio.Future[dict[Patient, Signs]] | None = None

    @contextmanager
    def of(self, request_id: UUID, *, since: float, wanted: bool) -> Iterator["Heartbeat"]:
        """The beats of one call, counted from the monotonic time `since`; none are due unless they are `wanted`."""
        heartbeat = Heartbeat(self, request_id)
        if not wanted:
            yield heartbeat
            return
        with self._among_the_read(request_id):
            heartbeat.begin(since)
            yield heartbeat

    @contextmanager
    def of_connection(self) -> Iterator["ConnectionHeartbeat"]:
        """The beats of one legacy connection; none are due before it wants them."""
        with self._among_the_read(SITE):
            yield ConnectionHeartbeat(self)

    async def signs(self, patient: Patient) -> Signs | None:
        """The signs of a call or of the site; None when the call has ended or nothing can be read in time."""
        try:
            async with asyncio.timeout(settings.VITAL_SIGNS_INTERVAL):
                return (await asyncio.shield(self._read(patient))).get(patient)
        except Exception as error:
            logger.error("a heartbeat is left out, the rows cannot be read: %r", error)
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
    """The beats that one client hears of one call."""

    def __init__(self, heartbeats: Heartbeats, patient: Patient) -> None:
        self._heartbeats = heartbeats
        self._patient = patient
        self._due_at = math.inf

    def begin(self, since: float) -> None:
        """Have the first beat due one interval after this monotonic time."""
        self._due_at = since + settings.VITAL_SIGNS_INTERVAL

    @property
    def wait(self) -> float:
        """Seconds until the next beat is due; infinite for a client that wants none."""
        return max(0.0, self._due_at - time.monotonic())

    async def take(self) -> dict[str, Any] | None:
        """The beat that is due, as a notification; None when there is nothing to vouch for."""
        self._due_at = max(self._due_at + settings.VITAL_SIGNS_INTERVAL, time.monotonic())
        signs = await self._heartbeats.signs(self._patient)
        if signs is None or not self._vouches(signs):
            return None
        return notifications.log_message(LEVEL, signs.data, LOGGER_NAME)

    def _vouches(self, signs: Signs) -> bool:
        return True


class ConnectionHeartbeat(Heartbeat):
    """The beats that a legacy connection hears outside any request: that its server process and the site are there.

    Until a worker has been heard of they say that there is none; from then on they come only while one lives, so that
    a client may take their silence for the site's.
    """

    def __init__(self, heartbeats: Heartbeats) -> None:
        super().__init__(heartbeats, SITE)
        self._told_of_worker = False

    def want(self, wanted: bool) -> None:
        """Begin, if it had not, or end."""
        if not wanted:
            self._due_at = math.inf
        elif self._due_at == math.inf:
            self.begin(time.monotonic())

    def _vouches(self, signs: Signs) -> bool:
        alive = signs.worker == "alive"
        self._told_of_worker = self._told_of_worker or alive
        return alive or not self._told_of_worker
