"""A call that a tool starts is a request of its own, and never outlives the run that started it."""

from functools import partial
from threading import Event
from uuid import uuid4

import pytest

from mcp_app.lifecycle import children
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.children import ParentStoppedError, TooManyChildrenError
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Cancellation, Request
from mcp_app.states import OPEN, Cause, Outcome, ProcessRole, Status
from tests.lifecycle.families import child, running_child
from tests.lifecycle.test_supervision import later
from tests.support import rows
from tests.support.racing import race, races

ENDS = {
    "completed": {"status": Status.COMPLETED, "result": rows.RESULT},
    "failed": {"status": Status.FAILED, "error": {"message": "no"}},
    "lost": {"status": Status.LOST, "error": {"cause": "lost"}},
}


def end(row, how="completed"):
    assert transitions.finish(row.pk, worker=row.worker, **ENDS[how]) == ENDS[how]["status"]


def test_with_a_parent_go_its_children_and_theirs(worker):
    parent = rows.running(worker)
    first, queued = running_child(parent, worker), child(parent)
    grandchild = running_child(first, worker)
    innocent = running_child(rows.running(worker), worker)
    assert rows.cancel(parent, Cause.ADMIN, "too dear", actor=Actor("Grace", "192.0.2.9")) == Outcome.ACCEPTED
    for row in (first, queued, grandchild):
        after = rows.fresh(row)
        assert (after.cancel_cause, after.cancel_actor) == (Cause.PARENT, "Grace")
        [attempt] = rows.audited(row)
        assert (attempt.outcome, attempt.actor, attempt.part_of) == (
            Outcome.ACCEPTED,
            "Grace",
            f"started by {row.parent}",
        )
    reason = rows.audited(first)[0].reason
    assert all(fact in reason for fact in ("dig", "started it", "cancelled", "administrator"))
    assert rows.fresh(queued).status == Status.CANCELLED
    assert rows.fresh(innocent).cancel_requested_at is None


@pytest.mark.fault("C14")
@pytest.mark.parametrize("how", ENDS)
def test_children_of_a_parent_that_ended_are_cancelled_by_whoever_looks_and_twice_is_once(worker, how):
    parent = rows.running(worker)
    row = running_child(parent, worker)
    grandchild = running_child(row, worker)
    end(parent, how)
    rounds.supervise()
    rounds.supervise()
    for each in (row, grandchild):
        assert rows.fresh(each).cancel_cause == Cause.PARENT
        assert rows.outcomes(each) == [Outcome.ACCEPTED]


@pytest.mark.fault("C14")
def test_a_cascade_that_died_in_between_is_finished(worker, monkeypatch):
    parent = rows.running(worker)
    found = [running_child(parent, worker), child(parent)]
    with monkeypatch.context() as dying:
        dying.setattr(cancellation, "cancel_children", lambda parents: exit(9))
        with pytest.raises(SystemExit):
            rows.cancel(parent)
    assert rows.fresh(parent).cancel_requested_at is not None
    assert [rows.fresh(row).cancel_requested_at for row in found] == [None, None]
    race(*[rounds.supervise] * 3)
    assert [rows.outcomes(row) for row in found] == [[Outcome.ACCEPTED]] * 2


def test_a_cascade_that_fails_does_not_take_back_the_parents_cancellation(worker, monkeypatch):
    parent = rows.running(worker)
    row = running_child(parent, worker)

    def away(asks):
        raise cancellation.OperationalError("away")

    with monkeypatch.context() as failing:
        failing.setattr(cancellation, "sweep", away)
        assert rows.cancel(parent) == Outcome.ACCEPTED
    assert rows.fresh(row).cancel_requested_at is None
    rounds.supervise()
    assert rows.fresh(row).cancel_cause == Cause.PARENT


def test_children_of_a_lost_worker_are_cancelled_in_the_round_that_loses_their_parent(worker):
    parent = rows.running(worker)
    elsewhere = Identity(ProcessRole.WORKER)
    processes.beat(elsewhere)
    row = running_child(parent, elsewhere.boot_id)
    later(11)
    processes.beat(elsewhere)
    rounds.supervise()
    assert rows.fresh(parent).status == Status.LOST
    assert (rows.fresh(row).status, rows.fresh(row).cancel_cause) == (Status.RUNNING, Cause.PARENT)


def test_what_goes_on_with_its_parent_is_left_alone_though_it_has_no_client(worker):
    parent = rows.running(worker)
    found = [running_child(parent, worker), child(parent)]
    later(9)
    processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
    before = rows.everything(found[0])
    rounds.supervise()
    assert rows.everything(found[0]) == before
    assert [rows.fresh(row).status for row in found] == [Status.RUNNING, Status.QUEUED]
    assert [rows.fresh(row).server for row in found] == [None, None]


def test_a_run_that_ends_to_ask_takes_its_children_with_it(worker):
    parent = rows.running(worker)
    row = running_child(parent, worker)
    assert input_rounds.ask(parent.pk, rows.QUESTIONS, worker=worker) == Status.INPUT_REQUIRED
    rounds.supervise()
    assert rows.fresh(row).cancel_cause == Cause.PARENT
    reason = rows.audited(row)[0].reason
    assert all(fact in reason for fact in ("run of dig", "ended"))


def stopping(worker):
    return rows.stopping(worker)


def asking(worker):
    return rows.asking(worker)


def ended(worker):
    row = rows.running(worker)
    end(row)
    return row


def being_killed(worker):
    row = rows.stopping(worker)
    assert transitions.begin_kill(row.pk, worker=worker)
    return row


@pytest.mark.parametrize("parent_of", [stopping, asking, ended, being_killed, rows.queued])
def test_only_a_run_that_goes_on_starts_anything(worker, parent_of):
    parent = parent_of() if parent_of is rows.queued else parent_of(worker)
    with pytest.raises(ParentStoppedError):
        children.submit(rows.submission(parent=parent.pk), worker=worker)
    assert not Request.objects.filter(parent=parent.pk).exists()


def test_only_the_worker_that_runs_it_starts_anything_for_it(worker):
    parent = rows.running(worker)
    with pytest.raises(ParentStoppedError):
        children.submit(rows.submission(parent=parent.pk), worker=uuid4())


def test_a_child_is_not_begun_once_its_parent_is_to_stop(worker, monkeypatch):
    parent = rows.running(worker)
    row = child(parent)
    monkeypatch.setattr(cancellation, "cancel_children", lambda parents: None)
    rows.cancel(parent)
    assert transitions.claim(row.pk, worker=worker, pid=1) is None
    assert rows.fresh(row).status == Status.QUEUED
    monkeypatch.undo()
    rounds.supervise()
    assert rows.fresh(row).status == Status.CANCELLED


def test_no_child_survives_a_cancellation_that_races_with_its_start(worker):
    def start(parent):
        try:
            return child(parent)
        except ParentStoppedError:
            return None

    with races(3) as at_once:
        for _ in range(25):
            parent = rows.running(worker)
            known = child(parent)
            at_once.run(partial(start, parent), partial(rows.cancel, parent), partial(start, parent))
            for row in Request.objects.filter(parent=parent.pk):
                assert row.status == Status.CANCELLED, row.pk
            assert rows.outcomes(known) == [Outcome.ACCEPTED]


def test_a_cancellation_that_comes_while_a_child_is_stored_waits_for_it_and_finds_it(worker, monkeypatch):
    parent = rows.running(worker)
    halfway, asked = Event(), Event()
    stored = transitions.submit

    def held(submission):
        row = stored(submission)
        halfway.set()
        asked.wait(0.3)  # we hold the lock, so that no cancellation can proceed
        return row

    def cancel():
        assert halfway.wait(10)
        outcome = rows.cancel(parent)
        asked.set()
        return outcome

    monkeypatch.setattr(transitions, "submit", held)
    row, outcome = race(partial(child, parent), cancel)
    assert outcome == Outcome.ACCEPTED
    assert (rows.fresh(row).status, rows.fresh(row).cancel_cause) == (Status.CANCELLED, Cause.PARENT)


def test_a_hundred_children_go_with_their_parent(worker):
    parent = rows.running(worker)
    found = [child(parent) if number % 2 else running_child(parent, worker) for number in range(100)]
    rows.cancel(parent)
    assert {rows.fresh(row).cancel_cause for row in found} == {Cause.PARENT}
    assert Cancellation.objects.filter(part_of=f"started by {parent.pk}").count() == 100
    assert not Request.objects.filter(parent=parent.pk, status=Status.QUEUED).exists()


def test_a_parent_has_as_many_open_as_may_be(worker, configure):
    configure(MAX_CHILDREN=2)
    parent = rows.running(worker)
    first, _ = child(parent), child(parent)
    with pytest.raises(TooManyChildrenError, match="2 started calls"):
        child(parent)
    rows.cancel(first)
    child(parent)
    assert rows.fresh(parent).children == 3


def test_a_principal_has_as_many_open_as_may_be(worker, configure):
    configure(MAX_CHILDREN_PER_PRINCIPAL=2)
    child(rows.running(worker))
    child(rows.running(worker))
    with pytest.raises(TooManyChildrenError, match=r"caller .*\b2\b"):
        child(rows.running(worker))
    child(rows.running(worker, principal=rows.STRANGER), principal=rows.STRANGER)


def test_a_repeated_start_stores_one(worker):
    parent = rows.running(worker)
    pk = uuid4()
    assert child(parent, id=pk).pk == child(parent, id=pk).pk == pk
    assert Request.objects.filter(parent=parent.pk, status__in=OPEN).count() == 1
