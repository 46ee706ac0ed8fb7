"""Rounds of input (2026-07-28 basic/patterns/mrtr): each question is asked and answered once."""

from datetime import timedelta

import pytest
from django.db.models import F

from mcp_app.conf import settings
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Process, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Cause, EventKind, ProcessRole, Stage, Status
from tests.support import brokers, rows
from tests.support.racing import race

MORE = {"age": {"method": "elicitation/create", "params": {"message": "Your age?"}}}


def test_a_run_that_asks_leaves_a_row_without_a_worker(worker):
    row = rows.asking(worker)
    assert (row.status, row.input_round, row.questions) == (Status.INPUT_REQUIRED, 1, rows.QUESTIONS)
    rounds.lose_requests_of_silent_workers()
    Process.objects.all().delete()
    rounds.supervise()
    assert rows.fresh(row).status == Status.INPUT_REQUIRED
    assert transitions.claim(row.pk, worker=worker, pid=1) is None
    assert [data["status"] for _, data in rows.story(row, EventKind.TRANSITION)] == [
        *("queued", "running", "input_required"),
    ]


def test_an_answered_request_is_queued_for_the_client_that_sent_the_answer(worker, server):
    row = rows.asking(worker)
    row = rows.answer(row, jsonrpc_id=9, server=server, progress_token="t", client_capabilities={"roots": {}})
    assert (row.status, row.answers, row.questions) == (Status.QUEUED, rows.ADA_SAYS, {})
    assert (row.jsonrpc_id, row.server, row.progress_token) == (9, server, "t")
    assert row.client_capabilities == {"roots": {}}
    claimed = transitions.claim(row.pk, worker=worker, pid=2)
    assert claimed.answers == rows.ADA_SAYS
    assert rows.fresh(row).deadline_at < row.deadline_at  # the run's own time limit of 60 s
    assert [data for _, data in rows.story(row, EventKind.INPUT)] == [
        {"asked": rows.QUESTIONS},
        {"answered": rows.ADA_SAYS},
    ]
    assert rows.numbers(row) == list(range(1, 8))


def test_the_answers_of_several_rounds_add_up(worker):
    row = rows.answer(rows.asking(worker))
    assert transitions.claim(row.pk, worker=worker, pid=1)
    assert input_rounds.ask(row.pk, MORE, worker=worker) == Status.INPUT_REQUIRED
    age = {"age": {"action": "decline"}}
    row = rows.answer(row, 2, age)
    assert row.answers == {**rows.ADA_SAYS, **age}


def test_a_round_is_answered_only_once(worker):
    row = rows.asking(worker)
    taken = race(lambda: rows.answer(row), lambda: rows.answer(row), lambda: rows.answer(row))
    assert sum(each is not None for each in taken) == 1
    assert rows.answer(row) is None


@pytest.mark.parametrize("number", [0, 2])
def test_another_rounds_number_changes_nothing(worker, number):
    row = rows.asking(worker)
    before = rows.everything(row)
    assert input_rounds.find_unanswered(row.pk, number) is None
    assert rows.answer(row, number) is None
    assert rows.everything(row) == before


def test_questions_that_are_asked_again_form_a_new_round_with_the_same_deadline(worker):
    row = rows.asking(worker)
    again = rows.answer(row, answers={}, again=rows.QUESTIONS)
    assert (again.status, again.input_round, again.deadline_at) == (Status.INPUT_REQUIRED, 2, row.deadline_at)
    assert again.server == row.server
    assert rows.answer(row, 1) is None
    assert rows.answer(row, 2).status == Status.QUEUED


def test_a_cancelled_run_cannot_ask(worker):
    row = rows.stopping(worker)
    assert input_rounds.ask(row.pk, rows.QUESTIONS, worker=worker, stage=Stage.COOPERATIVE) == Status.CANCELLED
    row = rows.fresh(row)
    assert (row.status, row.stage, row.questions) == (Status.CANCELLED, Stage.COOPERATIVE, {})
    assert rows.audited(row)[0].settled_at is not None


def test_only_the_worker_that_runs_it_may_ask(worker):
    other = Identity(ProcessRole.WORKER).boot_id
    row = rows.running(worker)
    assert input_rounds.ask(row.pk, rows.QUESTIONS, worker=other) is None
    assert not input_rounds.keep(row.pk, "key", 1, worker=other)
    assert rows.fresh(row).status == Status.RUNNING


def test_an_unanswered_question_is_cancelled_at_its_deadline(worker):
    row = rows.asking(worker)
    rounds.cancel_overdue_requests()
    assert rows.fresh(row).status == Status.INPUT_REQUIRED
    past = timedelta(seconds=settings.MAX_INPUT_SECONDS + 1)
    Request.objects.filter(pk=row.pk).update(deadline_at=F("deadline_at") - past)
    rounds.cancel_overdue_requests()
    row = rows.fresh(row)
    assert (row.status, row.cancel_cause) == (Status.CANCELLED, Cause.DEADLINE)
    assert "question" in row.cancel_reason


def test_the_open_questions_of_a_caller_are_limited(worker, configure):
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=1)
    rows.asking(worker, principal=rows.STRANGER)
    first = rows.asking(worker)
    second = rows.running(worker)
    assert input_rounds.ask(second.pk, rows.QUESTIONS, worker=worker) == Status.FAILED
    assert rows.fresh(second).result["isError"]
    rows.answer(first)
    third = rows.running(worker)
    assert input_rounds.ask(third.pk, rows.QUESTIONS, worker=worker) == Status.INPUT_REQUIRED


def test_an_answered_request_that_no_worker_claims_is_published_again(worker):
    row = rows.asking(worker)
    Request.objects.filter(pk=row.pk).update(submitted_at=Now() - timedelta(days=1))
    row = rows.answer(row)
    rounds.republish_unclaimed_requests()
    assert brokers.waiting(row.queue) == []
    Request.objects.filter(pk=row.pk).update(queued_at=Now() - timedelta(seconds=settings.REPUBLISH_AFTER + 1))
    rounds.republish_unclaimed_requests()
    assert brokers.waiting(row.queue) == [str(row.pk)]


def test_a_kept_value_is_available_in_the_next_run(worker):
    row = rows.running(worker)
    assert input_rounds.keep(row.pk, "id", {"n": [1, None]}, worker=worker)
    assert input_rounds.keep(row.pk, "other", 0, worker=worker)
    assert input_rounds.ask(row.pk, rows.QUESTIONS, worker=worker) == Status.INPUT_REQUIRED
    rows.answer(row)
    assert transitions.claim(row.pk, worker=worker, pid=1).kept == {"id": {"n": [1, None]}, "other": 0}
