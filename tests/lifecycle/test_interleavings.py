"""Two steps of a request's life may interleave at any statement. The result is as if one had run first.

The lifecycle itself, run one step after the other, is the oracle. `test_state_machine` tests single steps.
"""

import random
from functools import partial
from itertools import repeat
from uuid import uuid4

import pytest

from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.sessions import call_connections
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Cancellation, Request, RequestEvent
from mcp_app.states import Cause, EventKind, Stage, Status
from tests.lifecycle.interleaving import interleave
from tests.lifecycle.stored import stored
from tests.support import rows

ANOTHER = uuid4()
PLACES = {
    "queued": lambda worker: rows.queued(),
    "running": rows.running,
    "stopping": rows.stopping,
    "being killed": lambda worker: _killed(rows.stopping(worker), worker),
    "asking": rows.asking,
}


def _killed(row, worker):
    assert transitions.begin_kill(row.pk, worker=worker)
    return row


def _finish(row, worker, status, **options):
    return transitions.finish(row.pk, status, worker=worker, **options)


def _end(row, worker):
    """End a run as a worker does."""
    ended = transitions.end_run(row, Status.COMPLETED, result=rows.RESULT)
    return Status.COMPLETED if ended else _finish(row, worker, Status.COMPLETED, result=rows.RESULT)


def _cancel(row, worker, cause, name):
    return cancellation.cancel_all([CancellationRequest(row.pk, cause, Actor(name), f"says {name}")])


def _taken(step, row, *args, **options):
    return step(row.pk, *args, **options) is not None


STEPS = {
    "claim": lambda row, worker: _taken(transitions.claim, row, worker=worker, pid=1),
    "claim elsewhere": lambda row, worker: _taken(transitions.claim, row, worker=ANOTHER, pid=2),
    "complete": partial(_finish, status=Status.COMPLETED, result=rows.RESULT),
    "end the run": _end,
    "fail": partial(_finish, status=Status.FAILED, error={"cause": "tool"}),
    "stop": partial(_finish, status=Status.CANCELLED, stage=Stage.INTERRUPT),
    "end the kill": partial(_finish, status=Status.CANCELLED, fenced=True),
    "lose": lambda row, worker: rounds.mark_lost(row.pk, "gone", worker=worker),
    "begin to kill": lambda row, worker: transitions.begin_kill(row.pk, worker=worker),
    "say": lambda row, worker: transitions.record(row.pk, [Event(EventKind.LOG, {"data": "a"})] * 2),
    "reach a stage": lambda row, worker: transitions.reach_stage(row.pk, Stage.COOPERATIVE),
    "the client cancels": partial(_cancel, cause=Cause.CLIENT, name="Ada"),
    "an administrator cancels": partial(_cancel, cause=Cause.ADMIN, name="root"),
    "the deadline passes": partial(_cancel, cause=Cause.DEADLINE, name="system"),
    "ask": lambda row, worker: input_rounds.ask(row.pk, rows.QUESTIONS, worker=worker),
    "answer": lambda row, worker: rows.answer(row) is not None,
    "hand over": lambda row, worker: _taken(task_handles.hand_over, row),
    "let go": lambda row, worker: call_connections.detach(row.pk),
}
CHOSEN = [
    ("running", "complete", "the client cancels"),
    ("running", "an administrator cancels", "the client cancels"),
    ("running", "the deadline passes", "an administrator cancels"),
    ("running", "end the run", "the client cancels"),
    ("running", "end the run", "hand over"),
    ("running", "say", "end the run"),
    ("running", "lose", "end the run"),
    ("running", "lose", "complete"),
    ("running", "say", "complete"),
    ("stopping", "complete", "stop"),
    ("stopping", "complete", "begin to kill"),
    ("stopping", "end the run", "begin to kill"),
    ("queued", "claim", "claim elsewhere"),
    ("queued", "claim", "the client cancels"),
    ("asking", "answer", "the client cancels"),
]


def told(row):
    """Return the stored state of a request without its times and identity."""
    found = stored()
    left = found.rows[row.pk]
    names = ("status", "cancel_cause", "cancel_actor", "cancel_reason", "stage", "killing", "input_round", "error")
    assert found.numbers[row.pk] == list(range(1, left["event_seq"] + 1))
    attempts = [vars(attempt) for attempt in found.attempts.get(row.pk, [])]
    return [left[name] for name in names], left["result"] is None, found.stories[row.pk], attempts


def in_turn(place, first, second, worker):
    """Return the results and the stored state after both steps, the first before the second."""
    row = PLACES[place](worker)
    said = STEPS[first](row, worker)
    return said, STEPS[second](row, worker), told(row)


def outcomes(place, first, second, worker):
    there, (second_said, first_said, left) = (
        in_turn(place, first, second, worker),
        in_turn(place, second, first, worker),
    )
    return there, (first_said, second_said, left)


def interleaved(place, first, second, worker, schedule):
    row = PLACES[place](worker)
    steps = [partial(STEPS[name], row, worker) for name in (first, second)]
    one, other, statements = interleave(*steps, schedule)
    return (one, other, told(row)), statements


def try_every_switch(place, first, second, worker):
    """Run the first step up to each of its statements, then the second as far as it gets, then the rest."""
    expected = outcomes(place, first, second, worker)
    after, statements = 1, 1
    while after <= statements:
        found, statements = interleaved(place, first, second, worker, [*repeat(False, after), *repeat(True, 40)])
        assert found in expected, f"{second} after statement {after} of {first}"
        after += 1


@pytest.mark.fault("B1", "B2", "B4", "B12", "C10", "C14")
@pytest.mark.parametrize(("place", "first", "second"), CHOSEN)
def test_two_steps_at_any_statement_are_as_one_after_the_other(worker, place, first, second):
    try_every_switch(place, first, second, worker)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.fault("B1", "B2", "B4", "B12", "C10", "C14")
@pytest.mark.parametrize("place", PLACES)
def test_any_two_steps_at_any_statement_are_as_one_after_the_other(worker, place):
    for first in STEPS:
        for second in STEPS:
            try_every_switch(place, first, second, worker)
            forget()


def forget():
    """Delete the requests, because a caller's open requests are limited and reading many is slow."""
    RequestEvent.objects.all().delete()
    Request.objects.all().delete()
    Cancellation.objects.all().purge()


def race(place, first, second, worker, times, seed=7):
    expected, chance, met = outcomes(place, first, second, worker), random.Random(seed), set()
    for number in range(times):
        found, _ = interleaved(place, first, second, worker, [chance.random() < 0.5 for _ in range(60)])
        assert found in expected, f"number {number} of seed {seed}"
        met.add(expected.index(found))
    return met


@pytest.mark.fault("B1")
def test_B1_of_a_stop_and_a_completion_in_random_interleavings_one_wins(worker):
    assert race("stopping", "complete", "stop", worker, times=25)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.fault("B1")
def test_B1_of_a_stop_and_a_completion_in_a_thousand_interleavings_one_wins(worker):
    assert race("stopping", "complete", "stop", worker, times=1000) == {0, 1}
