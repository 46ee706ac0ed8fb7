"""Check the clocks of the database and of the workers' hosts against this machine's.

A clock is compared during a round trip, so the result may be wrong by half of its duration
(`doubt`). The hosts' clocks are in the workers' answers over the broker. Rows do not show them,
because their times are the database's.
"""

import socket
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from mcp_app.conf import settings
from mcp_app.diagnosis.examination import Finding, SharedFacts, ok, warning
from mcp_app.diagnosis.worker_ping import WorkerAnswer
from mcp_app.models.utc_date_time import Now

NAME: Final = "clocks"
TRIES: Final = 3
"""How often the database is queried. The shortest round trip gives the most precise result."""
MOST_SECONDS: Final = 1.0
"""The accepted difference. With more, logs are out of order, and tokens expire early or late."""
REMEDY: Final = "Synchronize the clocks with NTP (`timedatectl set-ntp true`, chrony)."


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check the database's clock and the other hosts' clocks, by the best answer of each."""
    difference, doubt = min((_measure() for _ in range(TRIES)), key=lambda measured: measured[1])
    yield _finding("The database's clock", difference, doubt)
    best: dict[str, WorkerAnswer] = {}
    for answer in shared.worker_answers or []:
        if answer.hostname not in best or answer.doubt < best[answer.hostname].doubt:
            best[answer.hostname] = answer
    for host, answer in best.items():
        if host != socket.gethostname():
            yield _finding(f"The clock of {host}", answer.ahead, answer.doubt)


def _measure() -> tuple[float, float]:
    """Return the seconds by which the database's clock is ahead, and the possible error.

    Raises `django.db.Error`.
    """
    # The table is never empty: it has at least this app's first migration.
    rows = MigrationRecorder(connections[settings.DATABASE]).migration_qs.annotate(now=Now())
    began_at = time.time()
    measured: datetime = rows.values_list("now", flat=True)[0]
    ended_at = time.time()
    return measured.timestamp() - (began_at + ended_at) / 2, (ended_at - began_at) / 2


def _finding(clock: str, ahead: float, doubt: float) -> Finding:
    way = "ahead of" if ahead >= 0 else "behind"
    found = f"{clock} is {abs(ahead) * 1000:.0f} ms {way} this machine's, give or take {doubt * 1000:.0f} ms."
    return warning(NAME, found, REMEDY) if abs(ahead) - doubt > MOST_SECONDS else ok(NAME, found)
