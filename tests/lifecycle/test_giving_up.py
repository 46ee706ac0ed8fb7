"""A running request that cannot be stopped where it runs: its client is answered, its row stays what it is."""

from uuid import uuid4

import pytest

from mcp_app.lifecycle import observation, task_handles, transitions
from mcp_app.lifecycle.moved import Watch
from mcp_app.lifecycle.transitions import finish
from mcp_app.models import Request
from mcp_app.states import UNSTOPPABLE, Cause, Outcome, Stage, Status
from tests.lifecycle import rows

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.fault("A8")]

WORKER = uuid4()


@pytest.fixture
def row() -> Request:
    row = rows.stopping(WORKER, Cause.DEADLINE, "too long")
    assert transitions.give_up(row.pk)
    return rows.fresh(row)


def test_it_goes_on_running_and_says_so_and_its_audit_is_not_settled(row):
    assert (row.status, row.unstoppable, row.finished_at) == (Status.RUNNING, True, None)
    assert rows.story(row)[-1] == ("stage", {"stage": UNSTOPPABLE})
    [attempt] = rows.audited(row)
    assert attempt.settled_at is None


def test_its_client_is_answered_that_it_may_still_run(row):
    [seen] = observation.observe({row.pk: Watch()})
    assert not seen.ended
    assert seen.result is not None
    assert seen.result["isError"] is True
    [content] = seen.result["content"]
    assert "could not be stopped where it runs: it may still be running" in content["text"]
    assert content["text"].endswith("Reason: too long")


def test_one_that_is_to_stop_and_was_not_given_up_is_not_answered_yet():
    stopping = rows.stopping(WORKER)
    [seen] = observation.observe({stopping.pk: Watch()})
    assert seen.result is None


def test_what_it_returns_at_last_is_refused_as_a_result_and_kept_as_a_partial_one(row):
    assert finish(row.pk, Status.COMPLETED, worker=WORKER, result=rows.RESULT, stage=Stage.INTERRUPT) == (
        Status.CANCELLED
    )
    ended = rows.fresh(row)
    assert (ended.status, ended.stage, ended.result, ended.partial_result) == (
        *(Status.CANCELLED, Stage.INTERRUPT, None),
        rows.RESULT,
    )
    assert not ended.unstoppable
    [attempt] = rows.audited(row)
    assert (attempt.outcome, attempt.status_after) == (Outcome.ACCEPTED, Status.CANCELLED)
    assert attempt.settled_at is not None


def test_one_whose_worker_is_lost_is_lost(row):
    assert finish(row.pk, Status.LOST, worker=WORKER, error={"cause": "lost"}) == Status.LOST


def test_what_has_ended_is_not_given_up():
    ended = rows.stopping(WORKER)
    finish(ended.pk, Status.CANCELLED, worker=WORKER)
    assert not transitions.give_up(ended.pk)
    assert rows.fresh(ended).status == Status.CANCELLED


def test_as_a_task_it_is_working_until_its_end_is_proved():
    row = rows.running(WORKER)
    assert task_handles.hand_over(row.pk)
    rows.cancel(row, Cause.CLIENT)
    transitions.give_up(row.pk)
    task = task_handles.shown(rows.fresh(row))
    assert task.status == "working"
    assert "could not be stopped where it runs" in (task.status_message or "")
    finish(row.pk, Status.CANCELLED, worker=WORKER)
    assert task_handles.shown(rows.fresh(row)).status == "cancelled"
