"""Two steps of one request's life, a statement of the one between any two of the other: as if one had come first.

The oracle is the lifecycle itself, one step after the other, of which `test_state_machine` shows what it does.
"""

import random
from functools import partial
from itertools import repeat
from uuid import uuid4

import pytest

from mcp_app.lifecycle import cancellation, followers, input_rounds, supervision, task_handles, transitions
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.lifecycle.events import Event
from mcp_app.models import Cancellation, Request, RequestEvent
from mcp_app.states import Cause, EventKind, Stage, Status
from tests.lifecycle import rows
from tests.lifecycle.interleaving import interleave
from tests.lifecycle.stored import stored

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
    """As a worker ends a run."""
    ended = transitions.end_run(row, Status.COMPLETED, result=rows.RESULT)
    return Status.COMPLETED if ended else _finish(row, worker, Status.COMPLETED, result=rows.RESULT)


def _cancel(row, worker, cause, name):
    return cancellation.cancel_all([Ask(row.pk, cause, Actor(name), f"says {name}")])


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
    "lose": lambda row, worker: supervision.lose(row.pk, "gone", worker=worker),
    "begin to kill": lambda row, worker: transitions.begin_kill(row.pk, worker=worker),
    "say": lambda row, worker: transitions.record(row.pk, [Event(EventKind.LOG, {"data": "a"})] * 2),
    "reach a stage": lambda row, worker: transitions.reach_stage(row.pk, Stage.COOPERATIVE),
    "the client cancels": partial(_cancel, cause=Cause.CLIENT, name="Ada"),
    "an administrator cancels": partial(_cancel, cause=Cause.ADMIN, name="root"),
    "the deadline passes": partial(_cancel, cause=Cause.DEADLINE, name="system"),
    "ask": lambda row, worker: input_rounds.ask(row.pk, rows.QUESTIONS, worker=worker),
    "answer": lambda row, worker: rows.answer(row) is not None,
    "hand over": lambda row, worker: _taken(task_handles.hand_over, row),
    "let go": lambda row, worker: followers.let_go(row.pk),
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
    """What is left of a request, but for its times and its identity."""
    found = stored()
    left = found.rows[row.pk]
    names = ("status", "cancel_cause", "cancel_actor", "cancel_reason", "stage", "killing", "input_round", "error")
    assert found.numbers[row.pk] == list(range(1, left["event_seq"] + 1))
    attempts = [vars(attempt) for attempt in found.attempts.get(row.pk, [])]
    return [left[name] for name in names], left["result"] is None, found.stories[row.pk], attempts


def in_turn(place, first, second, worker):
    """What both return and leave, the first before the second."""
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
    """The first up to any of its statements, then all of the second that can be, then the rest."""
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
    """Of so many requests of one caller the last would be refused, and all of them take long to be read."""
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
