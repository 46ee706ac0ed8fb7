"""Checks that every row has one end, a legal sequence of states, events without a gap, and a complete audit."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from mcp_app.states import TERMINAL, TRANSITIONS, Outcome, Status
from tests.chaos.rows import Attempt, Request, Rows


def findings(rows: Rows) -> Iterator[str]:
    attempts = defaultdict(list)
    for attempt in rows.attempts:
        attempts[attempt.request_id].append(attempt)
        if not attempt.settled:
            yield f"the attempt {attempt.id} on request {attempt.request_id} is not settled"
    for request in rows.requests:
        for wrong in (*_life(request), *_audit(request, attempts[request.id])):
            yield f"request {request.id} ({request.tag} {request.tool}): {wrong}"
    tags = Counter(request.tag for request in rows.requests if request.tag)
    for tag, times in tags.items():
        if times > 1:
            yield f"the call {tag} has {times} rows"


def _life(request: Request) -> Iterator[str]:
    if request.status not in TERMINAL:
        yield f"it is {request.status}, at event {request.event_seq}: {request.events[-4:]}"
    numbers = [seq for seq, _, _ in request.events]
    if numbers != list(range(1, len(numbers) + 1)) or request.event_seq != len(numbers):
        yield f"its events are not numbered without a gap: {len(numbers)} up to {request.event_seq}"
    steps = [Status(status) for _, kind, status in request.events if kind == "transition"]
    if not steps or steps[0] != Status.QUEUED or steps[-1] != request.status:
        yield f"its story does not go from queued to {request.status}: {steps}"
    for before, after in pairwise(steps):
        if after not in TRANSITIONS[before]:
            yield f"it went from {before} to {after}"
    if request.killing and request.stage < 3:
        yield "the fence of its kill stands, and it was not killed"
    if (request.finished_at is None) == (request.status in TERMINAL):
        yield f"it is {request.status} and finished at {request.finished_at}"


def _audit(request: Request, attempts: list[Attempt]) -> Iterator[str]:
    taken = [each for each in attempts if each.outcome in (Outcome.ACCEPTED, Outcome.TOO_LATE)]
    accepted = [each for each in attempts if each.outcome == Outcome.ACCEPTED]
    if request.status == Status.CANCELLED and len(accepted) != 1:
        yield f"it is cancelled, and has {len(accepted)} accepted attempts"
    if request.cancel_requested_at is not None and not taken:
        yield "it was to stop, and no attempt says so"
    if request.cancel_requested_at is None and accepted:
        yield "an attempt was accepted, and it does not know"
    for each in accepted:
        if each.status_after != request.status or each.stage != request.stage:
            yield f"its attempt says {each.status_after} (stage {each.stage}), it is {request.status} ({request.stage})"
