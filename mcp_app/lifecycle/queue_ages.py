"""How long requests wait for a worker: a number that can be asked for, and an alarm where it grows too large.

A worker that lives and takes nothing, or takes another queue only, looks well by its heartbeat; what waits tells.
Refuses to end what waits: its deadline does.
"""

import logging
import time
from dataclasses import dataclass

from django.db.models import Count, F, Max
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

_told_at: dict[str, float] = {}
"""When this process last raised the alarm for a queue (`time.monotonic`)."""


@dataclass(frozen=True, slots=True)
class QueueAge:
    """What waits in one queue; its oldest request for so many seconds, by the database's clock."""

    queue: str
    waiting: int
    oldest_seconds: float


def queue_ages() -> list[QueueAge]:
    """Every queue in which a request waits, the oldest first. Raises django.db.Error."""
    waiting = Request.objects.filter(status=Status.QUEUED).order_by().values("queue")
    found = waiting.annotate(count=Count("pk"), oldest=Max(Now() - F("queued_at")))
    ages = [QueueAge(row["queue"], row["count"], max(0.0, row["oldest"].total_seconds())) for row in found]
    return sorted(ages, key=lambda age: -age.oldest_seconds)


def raise_alarms() -> None:
    """Log an error for each queue whose oldest request waits for `QUEUE_ALARM_AFTER`, once in as many seconds."""
    after: float | None = settings.QUEUE_ALARM_AFTER
    if after is None:
        return
    old = {age.queue: age for age in queue_ages() if age.oldest_seconds >= after}
    for queue in _told_at.keys() - old.keys():
        del _told_at[queue]
        logger.warning("queue %s: nothing waits too long any more", queue)
    now = time.monotonic()
    for age in old.values():
        if now - _told_at.get(age.queue, float("-inf")) >= after:
            _told_at[age.queue] = now
            logger.error(
                "queue %s: no worker took a request for %.0f s; %d wait. Is one running that takes this queue?",
                *(age.queue, age.oldest_seconds, age.waiting),
            )
