"""The cancellation of a request in words: a few sentences for each attempt, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from mcp_app.models import Cancellation
from mcp_app.presentation.formatting import duration, moment
from mcp_app.safe_text import safe_text
from mcp_app.states import TERMINAL, Cause, Outcome, Stage, Status

ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class AttemptInWords:
    """One attempt in words. `outcome` is a value of `states`, for its colour."""

    outcome: str
    label: str
    words: str


def describe_attempts(request_id: UUID) -> tuple[list[AttemptInWords], bool]:
    """Return the first attempts on a request, in order, and whether there are more."""
    attempts = list(Cancellation.objects.filter(request_id=request_id).order_by("pk")[: ATTEMPTS + 1])
    return [describe_attempt(attempt) for attempt in attempts[:ATTEMPTS]], len(attempts) > ATTEMPTS


def describe_attempt(attempt: Cancellation) -> AttemptInWords:
    """Describe the actor, time, cause, reason and outcome of an attempt."""
    words = " ".join([f"{_describe_request(attempt)}.", *_describe_outcome(attempt)])
    return AttemptInWords(attempt.outcome, str(Outcome(attempt.outcome).label), safe_text(words))


def _describe_request(attempt: Cancellation) -> str:
    origin = f" ({attempt.actor_address})" if attempt.actor_address else ""
    asked = f"{moment(attempt.requested_at, precise=True)}: {attempt.actor}{origin} asked, "
    asked += f"cause: {Cause(attempt.cause).label}"
    if attempt.part_of:
        asked += f", as a part of “{attempt.part_of}”"
    return f"{asked}, reason: “{attempt.reason}”" if attempt.reason else f"{asked}, no reason given"


def _describe_outcome(attempt: Cancellation) -> Iterator[str]:
    if attempt.request_id is None and not attempt.requested_id:
        yield "These attempts changed nothing. If there are many in a short time, only the first are listed one by one."
        return
    match Outcome(attempt.outcome):
        case Outcome.ACCEPTED:
            yield from _accepted(attempt)
        case Outcome.DUPLICATE:
            yield "Its cancellation had already been requested; the first cause remains."
        case Outcome.TOO_LATE if attempt.status_before in TERMINAL:
            yield f"Too late: the request had ended before ({Status(attempt.status_before).label})."
        case Outcome.TOO_LATE:
            yield f"Too late: the tool completed {_latency(attempt)} after that, before it was stopped."
        case Outcome.DENIED:
            yield "Denied: the actor had no right to cancel it; nothing was changed."
        case Outcome.UNKNOWN:
            yield "There was no such request."


def _accepted(attempt: Cancellation) -> Iterator[str]:
    yield f"Accepted while it was {Status(attempt.status_before).label}."
    if attempt.settled_at is None:
        yield "The tool has not stopped yet."
    elif attempt.status_before != Status.RUNNING:
        yield "No worker was running it, so nothing had to be stopped."
    else:
        ended = Status(attempt.status_after).label
        yield f"It ended as {ended} {_latency(attempt)} later; the stop went as far as: {Stage(attempt.stage).label}."


def _latency(attempt: Cancellation) -> str:
    return "some time" if attempt.latency_ms is None else duration(max(0.0, attempt.latency_ms / 1000))
