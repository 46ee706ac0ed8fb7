"""Tallies of whole days, of the site's time zone: a period of days costs what its days are, not its hours.

A step of supervision. A day is added once it is over and all that ended in it is counted, so it is never changed; those
that are missing are made of their hours, also after the site's time zone was changed. Refuses to be the truth: whatever
day is not here is read by its hours (`statistics`).
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from django.db.models import Max, Sum
from django.utils import timezone

from mcp_app.lifecycle import clock, tallies
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.periods import Period
from mcp_app.models import DayTally, Tally

SETTLED: Final = timedelta(hours=1)
"""After its end nothing ends in a day any more, however long a transaction takes."""
_KEY: Final = ("tool", "measure", "status", "cause", "stage", "bucket")
_added: tuple[str, datetime] | None = None
"""Up to when this process has added all days, and of which time zone."""


def add_ended_days() -> None:
    """Add the days that statistics are of and that are over."""
    global _added
    zone = timezone.get_default_timezone_name()
    with timezone.override(timezone.get_default_timezone()):
        begins = Period.MONTH.begins()
    today = begins[-1]
    if _added == (zone, today) or clock.now() < today + SETTLED:
        return
    if tallies.uncounted().filter(finished_at__lt=today).exists():
        return
    known = set(DayTally.objects.filter(zone=zone).values_list("begins_at", flat=True).distinct())
    for begin, end in pairwise(begins):  # from the oldest on: what is before the newest is complete
        if begin not in known:
            _add(zone, begin, end)
    DayTally.objects.exclude(zone=zone, begins_at__gte=begins[0]).delete()
    _added = (zone, today)


def newest(zone: str, before: datetime) -> datetime | None:
    """The beginning of the newest day that is here, of those that begin before; all before it that had calls are.

    One statement. Raises django.db.Error.
    """
    days = DayTally.objects.filter(zone=zone, begins_at__lt=before)
    found: datetime | None = days.aggregate(newest=Max("begins_at"))["newest"]
    return found


def _add(zone: str, begin: datetime, end: datetime) -> None:
    hours = Tally.objects.filter(hour__gte=begin, hour__lt=end).order_by()
    found = hours.values(*_KEY).annotate(number=Sum("count"), length=Sum("seconds"))
    rows, together = [], defaultdict[tuple[Any, ...], list[float]](lambda: [0, 0.0])
    for row in found:
        number, length = row.pop("number"), row.pop("length")
        rows.append(DayTally(zone=zone, begins_at=begin, **row, count=number, seconds=length))
        summed = together[tuple(row[name] for name in _KEY[1:])]
        summed[0] += number
        summed[1] += length
    for key, (number, length) in together.items():
        named = dict(zip(_KEY[1:], key, strict=True))
        rows.append(DayTally(zone=zone, begins_at=begin, **named, count=int(number), seconds=length))
    _store(rows)


@transactional
def _store(rows: Sequence[DayTally]) -> None:
    """All of a day, or nothing of it; another process may have been as quick."""
    DayTally.objects.bulk_create(rows, ignore_conflicts=True)
