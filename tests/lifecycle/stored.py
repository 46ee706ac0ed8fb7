"""Read everything that is stored about requests, in a few queries and as plain values."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mcp_app.models import Cancellation, Request, RequestEvent
from tests.lifecycle.model import Attempt

NOTES = {"task": "task", "disconnected": "goes on"}
"""Notes of the model, by a word of the app's note."""
REASONS = ("server process", "no client", "no worker", "question", "expired", "session")
"""Words that occur in one of the app's own reasons for a cancellation each."""


@dataclass
class Stored:
    rows: dict[UUID, dict[str, Any]]
    numbers: dict[UUID, list[int]] = field(default_factory=dict)
    stories: dict[UUID, list[tuple[str, Any]]] = field(default_factory=dict)
    attempts: dict[UUID, list[Attempt]] = field(default_factory=dict)
    seals: dict[int, str] = field(default_factory=dict)
    """The seal of every attempt, by its key; empty if it is not sealed yet."""


def stored() -> Stored:
    found = Stored({row["id"]: row for row in Request.objects.values()})
    for pk, seq, kind, data in RequestEvent.objects.order_by("request", "seq").values_list(
        "request", "seq", "kind", "data"
    ):
        found.numbers.setdefault(pk, []).append(seq)
        found.stories.setdefault(pk, []).append(_in_words(kind, data))
    for attempt in Cancellation.objects.order_by("pk"):
        found.seals[attempt.pk] = attempt.seal
        if attempt.request_id is not None:
            found.attempts.setdefault(attempt.request_id, []).append(_told(attempt))
    return found


def brief(reason: str) -> str:
    """Return the words that identify one of the app's own reasons. Other reasons are returned as they are."""
    return next((words for words in REASONS if words in reason), reason)


def _told(attempt: Cancellation) -> Attempt:
    assert attempt.requested_at is not None
    ended = attempt.settled_at is not None and attempt.outcome in ("accepted", "too_late") and attempt.stopped_at
    assert (attempt.latency_ms is not None) == (attempt.stopped_at is not None) == bool(ended)
    return Attempt(
        attempt.cause,
        attempt.actor,
        brief(attempt.reason),
        attempt.outcome,
        attempt.status_before,
        attempt.status_after,
        attempt.stage,
        attempt.settled_at is not None,
    )


def _in_words(kind: str, data: dict[str, Any]) -> tuple[str, Any]:
    match kind:
        case "transition":
            return kind, data["status"]
        case "cancel":
            return kind, (data["cause"], data["actor"], brief(data["reason"]))
        case "stage":
            return kind, data["stage"]
        case "progress":
            return kind, data["progress"]
        case "log":
            return kind, data["data"]
        case "note":
            [note] = [note for word, note in NOTES.items() if word in data["message"]]
            return kind, note
    [(what, told)] = data.items()
    return what, tuple(sorted(told)) if what == "answered" else next(iter(told))
