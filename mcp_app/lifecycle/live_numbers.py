"""What the site does at this moment, in a few numbers. Reading only, by an index each: it may be asked every second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet, Value
from django.db.models.functions import Concat, Now

from mcp_app.lifecycle import processes, tallies
from mcp_app.lifecycle.queue_ages import QueueAge, queue_ages
from mcp_app.models import Request
from mcp_app.states import OPEN, ProcessRole, Status


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests in flight by status, and how many of them are to stop."""

    by_status: Mapping[Status, int]
    to_stop: int


@dataclass(frozen=True, slots=True)
class LiveNumbers:
    """Requests in flight by status, and how many of them are to stop; what waits, the oldest first; who lives."""

    in_flight: Mapping[Status, int]
    to_stop: int
    queues: Sequence[QueueAge]
    alive: Mapping[ProcessRole, int]
    lag: float
    """As `lag()`."""


def read() -> LiveNumbers:
    """Four statements. Raises django.db.Error."""
    now = _in_flight(Request.objects.all())
    return LiveNumbers(now.by_status, now.to_stop, queue_ages(), processes.count_alive(), lag())


def of_tool(tool: str) -> InFlight:
    """One statement, which finds them by their status: SQLite would look through all that the tool ever did."""
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
    """For how many seconds what ended first of all that is in no tally has waited to be counted; 0 where all is."""
    waiting = tallies.uncounted().order_by("finished_at").annotate(age=Now() - F("finished_at"))
    age = waiting.values_list("age", flat=True).first()
    return 0.0 if age is None else max(0.0, age.total_seconds())
