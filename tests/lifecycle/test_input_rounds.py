"""Rounds of input (2026-07-28 basic/patterns/mrtr): what is asked, what is answered, and once each."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle import input_rounds, supervision, transitions
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Process, Request
from mcp_app.states import Cause, EventKind, ProcessRole, Stage, Status
from tests.lifecycle import brokers, rows
from tests.lifecycle.racing import race

MORE = {"age": {"method": "elicitation/create", "params": {"message": "Your age?"}}}


def test_a_run_that_asks_leaves_a_row_that_waits_without_a_worker(worker):
    row = rows.asking(worker)
    assert (row.status, row.input_round, row.questions) == (Status.INPUT_REQUIRED, 1, rows.QUESTIONS)
    supervision.lose_requests_of_silent_workers()
    Process.objects.all().delete()
    supervision.supervise()
    assert rows.fresh(row).status == Status.INPUT_REQUIRED
    assert transitions.claim(row.pk, worker=worker, pid=1) is None
    assert [data["status"] for _, data in rows.story(row, EventKind.TRANSITION)] == [
        *("queued", "running", "input_required"),
    ]


def test_an_answered_request_is_queued_for_whoever_brought_the_answer(worker, server):
    row = rows.asking(worker)
    row = rows.answer(row, jsonrpc_id=9, server=server, progress_token="t", client_capabilities={"roots": {}})
    assert (row.status, row.answers, row.questions) == (Status.QUEUED, rows.ADA_SAYS, {})
    assert (row.jsonrpc_id, row.server, row.progress_token) == (9, server, "t")
    assert row.client_capabilities == {"roots": {}}
    claimed = transitions.claim(row.pk, worker=worker, pid=2)
    assert claimed.answers == rows.ADA_SAYS
    assert rows.fresh(row).deadline_at < row.deadline_at  # the run's own, of 60 s
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


def test_a_round_is_answered_once_however_many_try(worker):
    row = rows.asking(worker)
    taken = race(lambda: rows.answer(row), lambda: rows.answer(row), lambda: rows.answer(row))
    assert sum(each is not None for each in taken) == 1
    assert rows.answer(row) is None


@pytest.mark.parametrize("number", [0, 2])
def test_another_rounds_number_changes_nothing(worker, number):
    row = rows.asking(worker)
    before = rows.everything(row)
    assert input_rounds.waiting_for(row.pk, number) is None
    assert rows.answer(row, number) is None
    assert rows.everything(row) == before


def test_what_is_asked_again_is_a_new_round_with_the_same_deadline(worker):
    row = rows.asking(worker)
    again = rows.answer(row, answers={}, again=rows.QUESTIONS)
    assert (again.status, again.input_round, again.deadline_at) == (Status.INPUT_REQUIRED, 2, row.deadline_at)
    assert again.server == row.server
    assert rows.answer(row, 1) is None
    assert rows.answer(row, 2).status == Status.QUEUED


def test_a_cancellation_that_comes_first_leaves_nothing_to_ask(worker):
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


def test_a_question_that_nobody_answers_is_cancelled_at_its_deadline(worker):
    row = rows.asking(worker)
    supervision.cancel_overdue_requests()
    assert rows.fresh(row).status == Status.INPUT_REQUIRED
    past = timedelta(seconds=settings.MAX_INPUT_SECONDS + 1)
    Request.objects.filter(pk=row.pk).update(deadline_at=F("deadline_at") - past)
    supervision.cancel_overdue_requests()
    row = rows.fresh(row)
    assert (row.status, row.cancel_cause, row.cancel_reason) == (
        *(Status.CANCELLED, Cause.DEADLINE),
        "nobody answered in time",
    )


def test_a_caller_may_have_so_many_questions_open(worker, configure):
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=1)
    rows.asking(worker, principal=rows.STRANGER)
    first = rows.asking(worker)
    second = rows.running(worker)
    assert input_rounds.ask(second.pk, rows.QUESTIONS, worker=worker) == Status.FAILED
    assert rows.fresh(second).result["isError"]
    rows.answer(first)
    third = rows.running(worker)
    assert input_rounds.ask(third.pk, rows.QUESTIONS, worker=worker) == Status.INPUT_REQUIRED


def test_an_answered_request_that_nobody_claims_is_published_again_in_its_time(worker):
    row = rows.asking(worker)
    Request.objects.filter(pk=row.pk).update(submitted_at=Now() - timedelta(days=1))
    row = rows.answer(row)
    supervision.republish_unclaimed_requests()
    assert brokers.waiting(row.queue) == []
    Request.objects.filter(pk=row.pk).update(queued_at=Now() - timedelta(seconds=settings.REPUBLISH_AFTER + 1))
    supervision.republish_unclaimed_requests()
    assert brokers.waiting(row.queue) == [str(row.pk)]


def test_what_is_kept_is_there_in_the_next_run(worker):
    row = rows.running(worker)
    assert input_rounds.keep(row.pk, "id", {"n": [1, None]}, worker=worker)
    assert input_rounds.keep(row.pk, "other", 0, worker=worker)
    assert input_rounds.ask(row.pk, rows.QUESTIONS, worker=worker) == Status.INPUT_REQUIRED
    rows.answer(row)
    assert transitions.claim(row.pk, worker=worker, pid=1).kept == {"id": {"n": [1, None]}, "other": 0}
