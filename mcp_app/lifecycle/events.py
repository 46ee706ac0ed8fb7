"""Event rows: numbered per request without reuse. Refuses to choose numbers: the caller's update of the row did."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mcp_app.models import RequestEvent
from mcp_app.states import EventKind, Status

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be recorded: `data` is JSON-ready."""

    kind: EventKind
    data: dict[str, Any] = field(default_factory=dict)


def transition(status: Status, **details: Any) -> Event:
    return Event(EventKind.TRANSITION, {"status": status.value, **details})


def insert(request_id: UUID, events: Sequence[Event], newest: int) -> None:
    """Insert `events` whose numbers end at `newest`, already reserved in the row."""
    first = newest - len(events) + 1
    RequestEvent.objects.bulk_create(
        RequestEvent(request_id=request_id, seq=seq, kind=event.kind, data=storable(event.data))
        for seq, event in enumerate(events, first)
    )


def storable(value: Any) -> Any:
    """A JSON-ready `value` as every database takes it: U+FFFD for NUL and lone surrogates, null for NaN and infinities.

    A row that cannot be closed for the sake of an error message would stay open for ever.
    """
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {storable(key): storable(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [storable(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def finite(value: object) -> float | None:
    """`value` as a finite float, or None: NaN, infinities, booleans and other types are nobody's progress."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) else None
