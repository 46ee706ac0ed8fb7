"""The database's time, which is used for all timestamps and ages, so that hosts with different clocks agree.

The database's clock may be set forward or back. A process detects that with its own monotonic clock.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import ExpressionWrapper
from django.db.models.expressions import Combinable

from mcp_app import databases
from mcp_app.models.utc_date_time import Now, UTCDateTimeField, to_aware

NOW: Final = {
    "postgresql": "STATEMENT_TIMESTAMP()",
    "sqlite": "STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')",
    "mysql": "UTC_TIMESTAMP(6)",
}
"""The current time in each database's SQL, as in `Now`. On SQLite it is text. On MySQL it has no time zone."""


def from_now(seconds: float) -> Combinable:
    """Return an expression for the database's time in `seconds` seconds, which may be negative."""
    if not seconds:
        return Now()  # SQLite adds a duration in Python, row by row
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=UTCDateTimeField())


def read() -> datetime:
    """Read the database's time with one statement. Raises `django.db.Error`."""
    connection = databases.connection()
    [(now,)] = databases.rows(connection, f"SELECT {NOW[connection.vendor]}")
    return parse(now)


def parse(now: Any) -> datetime:
    """Return a value of `NOW` as an aware `datetime`. SQLite returns text."""
    return to_aware(datetime.fromisoformat(now) if isinstance(now, str) else now, databases.connection())


class _ClockReading:
    """The database's time that this process has read last."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None

    def note(self, told: datetime) -> float:
        """Store a time that was just read. Return the seconds by which the database's clock was set since the last."""
        known, self._last = self.carried_on, (told, time.monotonic())
        return 0.0 if known is None else (told - known).total_seconds()

    @property
    def carried_on(self) -> datetime | None:
        if self._last is None:
            return None
        told, read_at = self._last
        return told + timedelta(seconds=time.monotonic() - read_at)


_reading = _ClockReading()


def note(told: datetime) -> float:
    """Store a time that this process has just read. Return the seconds by which the database's clock was set."""
    return _reading.note(told)


def was_read() -> bool:
    """Whether this process knows the database's time."""
    return _reading.carried_on is not None


def now() -> datetime:
    """Return the approximate database time without a query. Before the first `read`, return this host's time."""
    return _reading.carried_on or datetime.now(UTC)
