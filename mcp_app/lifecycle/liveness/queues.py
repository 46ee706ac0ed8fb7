"""How long requests wait for a worker, the alarm if that is too long, and the places of requests in their queue.

A worker can have heartbeats and take no request, for example because it consumes other queues. Only the age of the
waiting requests shows that.

A place is approximate: a worker may have fetched some requests already, and a broker may deliver in another order. At
most `MAX_COUNTED` requests are counted, by an index, so that a page that polls costs the same for any length of queue.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Count, F, Max, QuerySet

from mcp_app.conf import settings
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Status

logger = logging.getLogger(__name__)

_alarmed_at: dict[str, float] = {}
"""The time of the last alarm for each queue (`time.monotonic`)."""


@dataclass(frozen=True, slots=True)
class QueueAge:
    """The number of requests that wait in a queue, and the age of the oldest, by the database's clock."""

    queue: str
    waiting: int
    oldest_seconds: float


def queue_ages() -> list[QueueAge]:
    """Return every queue with waiting requests, the one whose oldest request has waited longest first.

    Raises `django.db.Error`.
    """
    waiting = Request.objects.filter(status=Status.QUEUED).order_by().values("queue")
    found = waiting.annotate(count=Count("pk"), oldest=Max(Now() - F("queued_at")))
    ages = [QueueAge(row["queue"], row["count"], max(0.0, row["oldest"].total_seconds())) for row in found]
    return sorted(ages, key=lambda age: -age.oldest_seconds)


def raise_alarms(ages: Sequence[QueueAge]) -> None:
    """Log an error for each queue whose oldest request has waited for `QUEUE_ALARM_AFTER` seconds.

    At most once in that time in each process, and a warning when it is over.
    """
    after: float | None = settings.QUEUE_ALARM_AFTER
    if after is None:
        return
    old = {age.queue: age for age in ages if age.oldest_seconds >= after}
    for queue in _alarmed_at.keys() - old.keys():
        del _alarmed_at[queue]
        logger.warning("queue %s: no request waits too long any more", queue)
    now = time.monotonic()
    for age in old.values():
        if now - _alarmed_at.get(age.queue, float("-inf")) >= after:
            _alarmed_at[age.queue] = now
            logger.error(
                "queue %s: a request has waited %.0f s for a worker (waiting: %d). Is a worker running that "
                "consumes this queue, and are there enough?",
                *(age.queue, age.oldest_seconds, age.waiting),
            )


MAX_COUNTED: Final = 1_000
"""At most this many requests are counted for a place."""


class Place(NamedTuple):
    """The place of a request: `ahead` of it in the queue, and `waiting` in total. Both are at most `MAX_COUNTED`."""

    queue: str
    ahead: int
    waiting: int


def places(request_ids: Collection[UUID]) -> dict[UUID, Place]:
    """Return the places of the given requests, without those that do not wait for a worker.

    One query, and one for each queue. Raises `django.db.Error`.
    """
    if not request_ids:
        return {}
    found = list(_waiting().filter(pk__in=request_ids).values_list("pk", "queue", "queued_at"))
    since = {queue: _oldest(queue) for queue in {queue for _, queue, _ in found}}
    return {pk: Place(queue, bisect_left(since[queue], at), len(since[queue])) for pk, queue, at in found}


def _waiting() -> QuerySet[Request]:
    """Return the queued requests, in the words of their partial index, so that the database uses it."""
    return Request.objects.filter(claimed_at__isnull=True, finished_at__isnull=True).order_by()


def _oldest(queue: str) -> list[datetime]:
    """Return the times since when requests wait in a queue, oldest first, at most `MAX_COUNTED`."""
    return list(_waiting().filter(queue=queue).order_by("queued_at").values_list("queued_at", flat=True)[:MAX_COUNTED])
