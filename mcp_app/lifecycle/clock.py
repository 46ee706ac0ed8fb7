"""Database time: every timestamp and every comparison of ages, so that hosts with different clocks agree.

It may itself be set, forward or back: what a process has read of it is held against its own monotonic clock.
"""

import time
from datetime import UTC, datetime, timedelta

from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.expressions import Combinable
from django.db.models.functions import Now


def from_now(seconds: float) -> Combinable:
    """The database's time `seconds` from now; negative for the past."""
    if not seconds:
        return Now()  # SQLite adds a duration in Python, row by row
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=DateTimeField())


class _Reading:
    """The last time that this process read."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None

    def note(self, told: datetime) -> float:
        """Take what was read just now; the seconds by which the database's clock has moved against ours since."""
        known, self._last = self.carried_on, (told, time.monotonic())
        return 0.0 if known is None else (told - known).total_seconds()

    @property
    def carried_on(self) -> datetime | None:
        if self._last is None:
            return None
        told, read_at = self._last
        return told + timedelta(seconds=time.monotonic() - read_at)


_reading = _Reading()


def note(told: datetime) -> float:
    """As `_Reading.note`, for this process."""
    return _reading.note(told)


def was_read() -> bool:
    """Whether this process knows the database's time."""
    return _reading.carried_on is not None


def now() -> datetime:
    """About the database's time, without asking it; this host's where this process has never read it."""
    return _reading.carried_on or datetime.now(UTC)
