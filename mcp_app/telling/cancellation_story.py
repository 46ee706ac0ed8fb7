"""How the cancellation of one request went: a sentence or two for each attempt, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from mcp_app.lifecycle.inert import inert
from mcp_app.models import Cancellation
from mcp_app.states import TERMINAL, Cause, Outcome, Stage, Status
from mcp_app.telling.formatting import duration, moment

ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Telling:
    """One attempt in words. `outcome` is a value of `states`, for its colour."""

    outcome: str
    label: str
    words: str


def story(request_id: UUID) -> tuple[list[Telling], bool]:
    """The first attempts on a request, in order, and whether there were more."""
    attempts = list(Cancellation.objects.filter(request_id=request_id).order_by("pk")[: ATTEMPTS + 1])
    return [tell(attempt) for attempt in attempts[:ATTEMPTS]], len(attempts) > ATTEMPTS


def tell(attempt: Cancellation) -> Telling:
    """Who asked, when, why, and what came of it."""
    words = " ".join([f"{_asked(attempt)}.", *_came_of_it(attempt)])
    return Telling(attempt.outcome, str(Outcome(attempt.outcome).label), inert(words))


def _asked(attempt: Cancellation) -> str:
    origin = f" ({attempt.actor_address})" if attempt.actor_address else ""
    asked = f"{moment(attempt.requested_at, precise=True)}: {attempt.actor}{origin} asked, "
    asked += f"cause: {Cause(attempt.cause).label}"
    if attempt.part_of:
        asked += f", as a part of “{attempt.part_of}”"
    return f"{asked}, reason: “{attempt.reason}”" if attempt.reason else f"{asked}, no reason given"


def _came_of_it(attempt: Cancellation) -> Iterator[str]:
    if attempt.request_id is None and not attempt.requested_id:
        yield "They changed nothing; of a burst only the first are told one by one."
        return
    match Outcome(attempt.outcome):
        case Outcome.ACCEPTED:
            yield from _accepted(attempt)
        case Outcome.DUPLICATE:
            yield "Its cancellation had been requested before; the first cause stays."
        case Outcome.TOO_LATE if attempt.status_before in TERMINAL:
            yield f"Too late: the request had ended before ({Status(attempt.status_before).label})."
        case Outcome.TOO_LATE:
            yield f"Too late: the tool completed {_latency(attempt)} after that, before the stop landed."
        case Outcome.DENIED:
            yield "Denied: whoever asked had no right to; nothing was touched."
        case Outcome.UNKNOWN:
            yield "No such request was known."


def _accepted(attempt: Cancellation) -> Iterator[str]:
    yield f"Accepted while it was {Status(attempt.status_before).label}."
    if attempt.settled_at is None:
        yield "The tool has not stopped yet."
    elif attempt.status_before != Status.RUNNING:
        yield "Nothing of it was running, so nothing had to be stopped."
    else:
        ended = Status(attempt.status_after).label
        yield f"It ended as {ended} {_latency(attempt)} later; the stop went as far as: {Stage(attempt.stage).label}."


def _latency(attempt: Cancellation) -> str:
    return "some time" if attempt.latency_ms is None else duration(max(0.0, attempt.latency_ms / 1000))
