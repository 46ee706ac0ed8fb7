"""The times over which statistics are told: the last hours, or days of the current time zone. Refuses to read a row."""

from datetime import UTC, date, datetime, time, timedelta
from enum import Enum

from django.utils import timezone

from mcp_app.lifecycle import clock


class Period(Enum):
    """Up to now: so many hours, or days of which today is one."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def by_hour(self) -> bool:
        return self is Period.DAY

    def begins(self) -> list[datetime]:
        """When each hour or day of it begins, oldest first."""
        number = int(self.value[:-1])
        zone, now = timezone.get_current_timezone(), clock.now()
        if self.by_hour:
            hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            return [(hour - timedelta(hours=back)).astimezone(zone) for back in reversed(range(number))]
        today = now.astimezone(zone).date()
        return [_midnight(today - timedelta(days=back)) for back in reversed(range(number))]


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))
