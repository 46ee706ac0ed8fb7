"""Event rows: numbered per request without reuse. Refuses to number outside the transaction that reserved."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F

from mcp_app.models import Request, RequestEvent
from mcp_app.states import EventKind, Status


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be recorded: `data` is JSON-ready."""

    kind: EventKind
    data: dict[str, Any] = field(default_factory=dict)


def transition(status: Status, **details: Any) -> Event:
    return Event(EventKind.TRANSITION, {"status": status.value, **details})


def append(request_id: UUID, events: Sequence[Event], **columns: Any) -> int:
    """Number and insert `events` for one request, writing `columns` of its row along; returns the newest number.

    Must run inside a transaction: the row's update is the lock that makes this the one writer.
    """
    Request.objects.filter(pk=request_id).update(event_seq=F("event_seq") + len(events), **columns)
    newest = Request.objects.values_list("event_seq", flat=True).get(pk=request_id)
    insert(request_id, events, newest)
    return int(newest)


def insert(request_id: UUID, events: Iterable[Event], newest: int) -> None:
    """Insert `events` whose numbers end at `newest`, already reserved in the row."""
    events = list(events)
    first = newest - len(events) + 1
    RequestEvent.objects.bulk_create(
        RequestEvent(request_id=request_id, seq=seq, kind=event.kind, data=event.data)
        for seq, event in enumerate(events, first)
    )


def finite(value: object) -> float | None:
    """`value` as a finite float, or None: NaN, infinities, booleans and other types are nobody's progress."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) else None
