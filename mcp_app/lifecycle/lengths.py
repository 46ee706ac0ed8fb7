"""How long an ended request waited, ran, and took to stop: what statistics and the log tell of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mcp_app.models import Request
from mcp_app.states import Status

COLUMNS: Final = (
    "status", "queued_at", "claimed_at", "cancel_requested_at", "finished_at", "questions",
)  # fmt: skip
"""Of which they are made."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """In seconds; None where there was no such thing. Where it asked its client, the wait and the run are its last."""

    wait: float | None
    run: float | None
    stop: float | None

    @classmethod
    def of(cls, row: Request) -> "Lengths":
        claimed, finished = row.claimed_at, row.finished_at
        asking = bool(row.questions)  # it was closed while it asked: a person's time is no run
        return cls(
            wait=_between(row.queued_at, claimed),
            run=None if asking else _between(claimed, finished),
            stop=_between(row.cancel_requested_at, finished) if row.status == Status.CANCELLED else None,
        )


def _between(begin: datetime | None, end: datetime | None) -> float | None:
    return None if begin is None or end is None else max(0.0, (end - begin).total_seconds())
