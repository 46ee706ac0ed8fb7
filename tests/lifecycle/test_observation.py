"""A waiting server process reads each change once and in order, and runs few queries if nothing changes."""

import threading
from functools import partial
from uuid import uuid4

from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.observation import MAX_EVENTS, WatchedRequest
from mcp_app.models import ChangeVersion
from mcp_app.states import EventKind, Stage, Status
from tests.support import rows
from tests.support.racing import races


def progress(row, *steps):
    assert transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": step}) for step in steps])


def look(row, event_seq=0, *, wants_events=True):
    return observation.observe({row.pk: WatchedRequest(event_seq, wants_events)})


def test_what_did_not_move_is_not_observed(worker):
    row = rows.running(worker)
    assert look(row, rows.fresh(row).event_seq) == []
    assert observation.observe({}) == []
    assert observation.observe({uuid4(): WatchedRequest()}) == []


def test_events_are_told_in_order_and_only_the_new_ones(worker):
    row = rows.running(worker)
    progress(row, 1, 2)
    transitions.record(row.pk, [Event(EventKind.LOG, {"data": "words"})])
    [first] = look(row, row.event_seq)
    assert [(kind, data) for kind, data in first.events] == [
        (EventKind.PROGRESS, {"progress": 1}),
        (EventKind.PROGRESS, {"progress": 2}),
        (EventKind.LOG, {"data": "words"}),
    ]
    assert (first.status, first.ended, first.result) == (Status.RUNNING, False, None)
    progress(row, 3)
    [second] = look(row, first.event_seq)
    assert second.events == [(EventKind.PROGRESS, {"progress": 3})]


def test_much_is_told_in_parts_and_what_became_of_the_call_with_the_last(worker):
    """However much output a tool has while its client reads nothing, a server process holds a bounded part."""
    row = rows.running(worker)
    progress(row, *range(2 * MAX_EVENTS + 1))
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    parts, known = [], row.event_seq
    while seen := look(row, known):
        parts += seen
        known = seen[0].event_seq
    assert [len(part.events) for part in parts] == [MAX_EVENTS, MAX_EVENTS, 1]
    assert [data["progress"] for part in parts for _, data in part.events] == list(range(2 * MAX_EVENTS + 1))
    assert [(part.has_more, part.ended, part.result) for part in parts] == [
        (True, False, None),
        (True, False, None),
        (False, True, rows.RESULT),
    ]


def test_where_nothing_follows_what_is_told_nothing_is_waited_for(worker):
    row = rows.running(worker)
    progress(row, *range(MAX_EVENTS))
    [seen] = look(row, row.event_seq)
    assert (len(seen.events), seen.has_more, seen.event_seq) == (MAX_EVENTS, False, rows.fresh(row).event_seq)


def test_steps_of_the_ladder_are_not_told_to_clients(worker):
    row = rows.stopping(worker)
    transitions.reach_stage(row.pk, Stage.COOPERATIVE)
    [observed] = look(row)
    assert observed.events == []


def test_who_wants_no_events_is_told_of_the_end_only(worker):
    row = rows.running(worker)
    progress(row, 1)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    [observed] = look(row, wants_events=False)
    assert (observed.events, observed.ended, observed.result) == ([], True, rows.RESULT)


def test_watchers_with_different_knowledge_are_told_what_each_does_not_know(worker):
    old, new, still = (rows.running(worker) for _ in range(3))
    for row in (old, new):
        progress(row, 1, 2)
    watched = {
        old.pk: WatchedRequest(old.event_seq, wants_events=True),
        new.pk: WatchedRequest(new.event_seq + 1, wants_events=True),
        still.pk: WatchedRequest(still.event_seq, wants_events=True),
    }
    told = {seen.request_id: [data["progress"] for _, data in seen.events] for seen in observation.observe(watched)}
    assert told == {old.pk: [1, 2], new.pk: [2]}


def test_nothing_is_passed_over_while_it_is_being_written(worker):
    steps = 60
    moved = threading.Event()

    def work(row):
        for step in range(steps):
            progress(row, step)
            moved.set()
        transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)

    def watch(row):
        seen, known, ended = [], row.event_seq, False
        while not ended:
            moved.wait(0.01)  # otherwise the polling thread keeps the interpreter from the writing one
            moved.clear()
            for observed in look(row, known):
                seen += [data["progress"] for _, data in observed.events]
                known, ended = observed.event_seq, observed.ended
        return seen

    with races(2) as race:
        for _ in range(3):
            row = rows.running(worker)
            _, seen = race.run(partial(work, row), partial(watch, row))
            assert seen == list(range(steps))


def test_a_delivery_is_noted_once(worker):
    row = rows.running(worker)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert rows.fresh(row).delivered_at is None
    observation.mark_delivered([row.pk])
    delivered_at = rows.fresh(row).delivered_at
    assert delivered_at is not None
    observation.mark_delivered(iter([row.pk]))
    observation.mark_delivered([])
    assert rows.fresh(row).delivered_at == delivered_at


def test_versions_are_told_of_what_has_changed():
    ChangeVersion.bump("tools")
    ChangeVersion.bump("tools")
    assert observation.versions(["tools", "prompts"]) == {"tools": 2}
