"""The number of open requests, waiting calls and live processes at this moment.

All queries use an index, so that they may be made every second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet, Value
from django.db.models.functions import Concat

from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.queues import QueueAge, queue_ages
from mcp_app.lifecycle.statistics import tallies
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import OPEN, ProcessRole, Status


@dataclass(frozen=True, slots=True)
class InFlight:
    """Open requests by status, and how many of them have been asked to stop."""

    by_status: Mapping[Status, int]
    to_stop: int


@dataclass(frozen=True, slots=True)
class LiveNumbers:
    """The numbers of the whole site. Queues are ordered by their oldest call."""

    in_flight: Mapping[Status, int]
    to_stop: int
    queues: Sequence[QueueAge]
    alive: Mapping[ProcessRole, int]
    lag: float
    """See `lag()`."""


def read() -> LiveNumbers:
    """Return the numbers of the whole site. Takes four statements. Raises `django.db.Error`."""
    now = _in_flight(Request.objects.all())
    return LiveNumbers(now.by_status, now.to_stop, queue_ages(), processes.count_alive(), lag())


def read_for_tool(tool: str) -> InFlight:
    """Return the open requests of a tool. Takes one statement.

    The tool is compared as an expression, so that SQLite uses the index on the status. With the
    index on the tool it would read all calls that the tool ever had.
    """
    return _in_flight(Request.objects.alias(of=Concat("tool", Value(""))).filter(of=tool))


def _in_flight(rows: QuerySet[Request]) -> InFlight:
    found = rows.filter(status__in=sorted(OPEN)).order_by().values("status")
    found = found.annotate(total=Count("pk"), asked=Count("pk", filter=Q(cancel_requested_at__isnull=False)))
    by_status = {row["status"]: row for row in found}
    return InFlight(
        {status: by_status[status]["total"] if status in by_status else 0 for status in Status if status in OPEN},
        sum(row["asked"] for row in by_status.values()),
    )


def lag() -> float:
    """Return the seconds since the oldest uncounted call has ended, or 0 if all are counted."""
    waiting = tallies.uncounted().order_by("finished_at").annotate(age=Now() - F("finished_at"))
    age = waiting.values_list("age", flat=True).first()
    return 0.0 if age is None else max(0.0, age.total_seconds())
