"""If a running request cannot be stopped, its client gets a response while the request runs on."""

from uuid import uuid4

import pytest

from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.observation import WatchedRequest
from mcp_app.lifecycle.requests.transitions import finish
from mcp_app.models import Request
from mcp_app.states import UNSTOPPABLE, Cause, Outcome, Stage, Status
from tests.support import rows

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.fault("A8")]

WORKER = uuid4()


@pytest.fixture
def row() -> Request:
    row = rows.stopping(WORKER, Cause.DEADLINE, "too long")
    assert transitions.give_up(row.pk)
    return rows.fresh(row)


def test_an_unstoppable_request_goes_on_running_and_its_audit_is_not_settled(row):
    assert (row.status, row.unstoppable, row.finished_at) == (Status.RUNNING, True, None)
    assert rows.story(row)[-1] == ("stage", {"stage": UNSTOPPABLE})
    [attempt] = rows.audited(row)
    assert attempt.settled_at is None


def test_the_client_gets_an_error_which_says_that_it_may_still_run(row):
    [seen] = observation.observe({row.pk: WatchedRequest()})
    assert not seen.ended
    assert seen.result is not None
    assert seen.result["isError"] is True
    [content] = seen.result["content"]
    assert all(fact in content["text"] for fact in ("could not be stopped", "still be running", "too long"))


def test_a_request_that_was_asked_to_stop_is_not_answered_before_it_is_given_up():
    stopping = rows.stopping(WORKER)
    [seen] = observation.observe({stopping.pk: WatchedRequest()})
    assert seen.result is None


def test_its_late_result_is_kept_as_a_partial_result(row):
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


def test_an_unstoppable_request_is_lost_with_its_worker(row):
    assert finish(row.pk, Status.LOST, worker=WORKER, error={"cause": "lost"}) == Status.LOST


def test_an_ended_request_is_not_given_up():
    ended = rows.stopping(WORKER)
    finish(ended.pk, Status.CANCELLED, worker=WORKER)
    assert not transitions.give_up(ended.pk)
    assert rows.fresh(ended).status == Status.CANCELLED


def test_as_a_task_an_unstoppable_request_is_working_until_its_end():
    row = rows.running(WORKER)
    assert task_handles.hand_over(row.pk)
    rows.cancel(row, Cause.CLIENT)
    transitions.give_up(row.pk)
    task = task_handles.shown(rows.fresh(row))
    assert task.status == "working"
    assert "could not be stopped" in (task.status_message or "")
    finish(row.pk, Status.CANCELLED, worker=WORKER)
    assert task_handles.shown(rows.fresh(row)).status == "cancelled"
