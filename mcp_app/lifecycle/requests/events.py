"""The events of a request's history. Their numbers are reserved in `Request.event_seq` by the caller."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mcp_app.lifecycle.database.json_values import storable
from mcp_app.models import RequestEvent
from mcp_app.states import EventKind, Status


@dataclass(frozen=True, slots=True)
class Event:
    """An event to record. `data` is JSON-ready."""

    kind: EventKind
    data: dict[str, Any] = field(default_factory=dict)


def transition(status: Status, error: Mapping[str, Any] | None = None, **details: Any) -> Event:
    """Return the event of a step to `status`. A traceback in the error is left out; only the row has it."""
    if error:
        details["error"] = {name: value for name, value in error.items() if name != "traceback"}
    return Event(EventKind.TRANSITION, {"status": status.value, **details})


def insert(request_id: UUID, events: Sequence[Event], newest: int) -> None:
    """Insert `events`. The last one gets the number `newest`."""
    insert_all([(request_id, events, newest)])


def insert_all(of_requests: Iterable[tuple[UUID, Sequence[Event], int]]) -> None:
    """Insert the events of several requests: the id, the events, and the number of the last event of each."""
    RequestEvent.objects.bulk_create(
        RequestEvent(request_id=request_id, seq=seq, kind=event.kind, data=storable(event.data))
        for request_id, events, newest in of_requests
        for seq, event in enumerate(events, newest - len(events) + 1)
    )
