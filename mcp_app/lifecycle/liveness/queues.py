"""How long requests wait for a worker, the alarm if that is too long, and the places of requests in their queue.

A worker can have heartbeats and take no request, for example because it consumes other queues. Only the age of the
waiting requests shows that.

A place is approximate: a worker may have fetched some requests already, and a broker may deliver in another order. At
most `COUNTED` requests are counted, by an index, so that a page that polls costs the same however long the queue is.
"""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Count, F, IntegerField, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

_told_at: dict[str, float] = {}
"""The time of the last alarm for each queue (`time.monotonic`)."""


@dataclass(frozen=True, slots=True)
class QueueAge:
    """The number of requests that wait in a queue, and the age of the oldest, by the database's clock."""

    queue: str
    waiting: int
    oldest_seconds: float


def queue_ages() -> list[QueueAge]:
    """Return every queue with waiting requests, the oldest first. Raises `django.db.Error`."""
    waiting = Request.objects.filter(status=Status.QUEUED).order_by().values("queue")
    found = waiting.annotate(count=Count("pk"), oldest=Max(Now() - F("queued_at")))
    ages = [QueueAge(row["queue"], row["count"], max(0.0, row["oldest"].total_seconds())) for row in found]
    return sorted(ages, key=lambda age: -age.oldest_seconds)


def raise_alarms(ages: Sequence[QueueAge]) -> None:
    """Log an error for each queue whose oldest request has waited for `QUEUE_ALARM_AFTER`, once in that time."""
    after: float | None = settings.QUEUE_ALARM_AFTER
    if after is None:
        return
    old = {age.queue: age for age in ages if age.oldest_seconds >= after}
    for queue in _told_at.keys() - old.keys():
        del _told_at[queue]
        logger.warning("queue %s: no request waits too long any more", queue)
    now = time.monotonic()
    for age in old.values():
        if now - _told_at.get(age.queue, float("-inf")) >= after:
            _told_at[age.queue] = now
            logger.error(
                "queue %s: no worker has claimed a request for %.0f s; %d are waiting. Is a worker "
                "running that consumes this queue?",
                *(age.queue, age.oldest_seconds, age.waiting),
            )


COUNTED: Final = 1_000
"""The most requests that are counted for a place."""


class Place(NamedTuple):
    """The place of a request: `ahead` of it in the queue, and `waiting` in total. Both are at most `COUNTED`."""

    queue: str
    ahead: int
    waiting: int


class _Count(Subquery):
    """The number of rows of a limited query."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


def places(request_ids: Collection[UUID]) -> dict[UUID, Place]:
    """Return the places of those requests that wait for a worker, with one query. Raises `django.db.Error`."""
    if not request_ids:
        return {}
    beside = _waiting().filter(queue=OuterRef("queue"))
    before = beside.filter(queued_at__lt=OuterRef("queued_at"))
    found = _waiting().filter(pk__in=request_ids).annotate(ahead=_counted(before), beside=_counted(beside))
    told = found.values_list("pk", "queue", "ahead", "beside")
    return {pk: Place(queue, ahead, waiting) for pk, queue, ahead, waiting in told}


def _waiting() -> QuerySet[Request]:
    """Return the queued requests by the condition of their index: neither claimed nor ended."""
    return Request.objects.filter(claimed_at__isnull=True, finished_at__isnull=True).order_by()


def _counted(rows: QuerySet[Request]) -> Any:
    return _Count(rows.values("queued_at")[:COUNTED])
