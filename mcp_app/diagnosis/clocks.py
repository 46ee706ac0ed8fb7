"""The clocks: the database's, by which everything is timed, and those of the hosts on which workers run.

A clock is held against another over a round trip, half of which is in doubt. Rows cannot tell a host's clock: their
times are the database's.
"""

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.diagnosis.examination import Seen
from mcp_app.diagnosis.findings import Finding, ok, warning
from mcp_app.diagnosis.presences import Presence

NAME: Final = "clocks"
TRIES: Final = 3
"""How often the database is asked: the shortest round trip tells most."""
MOST_SECONDS: Final = 1.0
"""By which clocks may differ: logs are then out of order, and tokens expire early or late."""
REMEDY: Final = "Have the clocks set by NTP (`timedatectl set-ntp true`, chrony)."


def look(seen: Seen) -> Iterator[Finding]:
    """The database's clock, then each other host's of which a worker has answered, by the best of its answers."""
    difference, doubt = _database()
    yield _told("The database's clock", difference, doubt)
    for host, presence in _by_host(seen.presences or []).items():
        if host != socket.gethostname():
            yield _told(f"The clock of {host}", presence.ahead, presence.doubt)


def _database() -> tuple[float, float]:
    """Seconds by which the database's clock is ahead of this machine's, and those in doubt. Raises django.db.Error."""
    return min((_ask() for _ in range(TRIES)), key=lambda told: told[1])


def _ask() -> tuple[float, float]:
    # There is always a row: that of this app's first migration.
    rows = MigrationRecorder(connections[settings.DATABASE]).migration_qs.annotate(now=Now())
    began_at = time.time()
    told: datetime = rows.values_list("now", flat=True)[0]
    ended_at = time.time()
    aware = told if told.tzinfo else told.replace(tzinfo=UTC)
    return aware.timestamp() - (began_at + ended_at) / 2, (ended_at - began_at) / 2


def _by_host(presences: list[Presence]) -> dict[str, Presence]:
    best: dict[str, Presence] = {}
    for presence in presences:
        if presence.hostname not in best or presence.doubt < best[presence.hostname].doubt:
            best[presence.hostname] = presence
    return best


def _told(whose: str, ahead: float, doubt: float) -> Finding:
    way = "ahead of" if ahead >= 0 else "behind"
    found = f"{whose} is {abs(ahead) * 1000:.0f} ms {way} this machine's, give or take {doubt * 1000:.0f} ms."
    return warning(NAME, found, REMEDY) if abs(ahead) - doubt > MOST_SECONDS else ok(NAME, found)
