"""The place of requests in their queues: how many were queued before them and still wait for a worker.

Counted as far as anybody needs to know, by an index, so that a page that asks every second costs the same however long
the queue is. Those of one moment, as calls are that were stored together, share theirs. Refuses to be a promise: a
worker may have fetched some already, and a broker may order them otherwise.
"""

from collections.abc import Collection
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import IntegerField, OuterRef, QuerySet, Subquery

from mcp_app.models import Request

COUNTED: Final = 1_000
"""So many of each queue are counted, for each place."""


class Place(NamedTuple):
    """Where a request waits: behind `ahead` others of `waiting`, itself included; neither is more than `COUNTED`."""

    queue: str
    ahead: int
    waiting: int


class _Count(Subquery):
    """How many rows a bounded query finds."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


def places(request_ids: Collection[UUID]) -> dict[UUID, Place]:
    """The places of those that wait for a worker, by one query; the others have none. Raises django.db.Error."""
    if not request_ids:
        return {}
    beside = _waiting().filter(queue=OuterRef("queue"))
    before = beside.filter(queued_at__lt=OuterRef("queued_at"))
    found = _waiting().filter(pk__in=request_ids).annotate(ahead=_counted(before), beside=_counted(beside))
    told = found.values_list("pk", "queue", "ahead", "beside")
    return {pk: Place(queue, ahead, waiting) for pk, queue, ahead, waiting in told}


def _waiting() -> QuerySet[Request]:
    """As the index has them: QUEUED is what has neither a claim nor an end."""
    return Request.objects.filter(claimed_at__isnull=True, finished_at__isnull=True).order_by()


def _counted(rows: QuerySet[Request]) -> Any:
    return _Count(rows.values("queued_at")[:COUNTED])
