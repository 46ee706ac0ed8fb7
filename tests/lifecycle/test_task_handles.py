"""Handles on requests (ext-tasks): who gets one, what it survives, when it expires, and its questions' keys."""

import pytest

from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.input import input_rounds, task_inputs
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Process, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import OPEN, Cause, EventKind, Outcome, ProcessRole, Status
from tests.support import rows
from tests.support.racing import race, races

AGE = {"age": {"method": "elicitation/create", "params": {"message": "Your age?"}}}
FORTY = {"action": "accept", "content": {"age": 40}}


def task(**changes) -> Request:
    row = task_handles.submit(rows.submission(**changes))
    assert row is not None
    return row


def running_task(worker, **changes) -> Request:
    row = task(**changes)
    assert transitions.claim(row.pk, worker=worker, pid=1)
    return rows.fresh(row)


def asking_task(worker, questions=rows.QUESTIONS) -> Request:
    row = running_task(worker)
    assert input_rounds.ask(row.pk, questions, worker=worker) == Status.INPUT_REQUIRED
    return rows.fresh(row)


def find(row: Request, principal=rows.OWNER) -> Request | None:
    return task_handles.find(str(row.task_handle), principal)


def test_a_task_is_stored_with_a_handle_that_is_not_its_id(server):
    row = task(server=server)
    assert row.status == Status.QUEUED
    assert row.task_handle is not None
    assert row.task_handle != row.pk
    assert find(row) == row
    assert rows.numbers(row) == [1]
    handed = task_handles.hand_over(row.pk)
    assert (handed.task_handle, handed.server) == (row.task_handle, None)
    assert rows.story(row)[-1][0] == EventKind.NOTE
    assert rows.numbers(row) == [1, 2]


def test_handles_are_found_by_their_owner_alone_and_until_they_expire():
    row = task()
    assert find(row, rows.STRANGER) is None
    assert task_handles.find(str(row.pk), rows.OWNER) is None
    Request.objects.filter(pk=row.pk).update(task_expires_at=Now())
    assert find(row) is None
    assert task_handles.read([row.pk]) == {}
    Request.objects.filter(pk=row.pk).update(task_expires_at=None)
    assert find(row) == row
    assert task_handles.read([row.pk])[row.pk].ttl_ms is None


@pytest.mark.parametrize("claimed", [False, True])
def test_a_request_that_is_handed_over_outlives_its_server(worker, claimed):
    dead = Identity(ProcessRole.SERVER).boot_id
    row = rows.running(worker, server=dead) if claimed else rows.queued(server=dead)
    other = rows.queued(server=dead)
    assert task_handles.hand_over(row.pk).server is None
    Request.objects.update(queued_at="2020-01-01T00:00:00Z")
    rounds.cancel_requests_of_silent_servers()
    assert rows.fresh(row).cancel_requested_at is None
    assert rows.fresh(other).status == Status.CANCELLED


@pytest.mark.parametrize("claimed", [False, True])
def test_a_task_whose_server_dies_before_its_handle_is_sent_is_ended_as_any_call(worker, claimed):
    dead = Identity(ProcessRole.SERVER).boot_id
    unsent, sent = (running_task(worker, server=dead) if claimed else task(server=dead) for _ in range(2))
    task_handles.hand_over(sent.pk)
    Request.objects.update(queued_at="2020-01-01T00:00:00Z")
    rounds.cancel_requests_of_silent_servers()
    assert rows.fresh(unsent).cancel_cause == Cause.LOST_SERVER
    assert rows.fresh(sent).cancel_requested_at is None


def test_a_task_that_has_ended_before_its_handle_is_sent_is_shown_as_it_is(worker):
    row = running_task(worker)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert task_handles.shown(task_handles.hand_over(row.pk)).status == "completed"


def test_the_work_of_a_task_that_has_expired_is_stopped(worker):
    running, asking, queued = running_task(worker), asking_task(worker), task()
    lasting, call, ended = running_task(worker), rows.running(worker), running_task(worker)
    transitions.finish(ended.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    expired = [row.pk for row in (running, asking, queued, ended)]
    Request.objects.filter(pk__in=expired).update(task_expires_at="2020-01-01T00:00:00Z")
    Request.objects.filter(pk=lasting.pk).update(task_expires_at=None)
    for _ in range(2):
        rounds.cancel_expired_tasks()
    assert rows.fresh(running).status == Status.RUNNING
    assert [rows.fresh(row).status for row in (asking, queued)] == [Status.CANCELLED] * 2
    for row in (running, asking, queued):
        assert rows.fresh(row).cancel_cause == Cause.DEADLINE
        assert rows.outcomes(row) == [Outcome.ACCEPTED]
    for row in (lasting, call, ended):
        assert rows.outcomes(row) == []


def test_what_has_ended_asks_or_is_to_stop_is_not_handed_over(worker):
    ended = rows.running(worker)
    transitions.finish(ended.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    for row in (ended, rows.asking(worker), rows.stopping(worker)):
        before = rows.everything(row)
        assert task_handles.hand_over(row.pk) is None
        assert rows.everything(row) == before


def test_a_hand_over_and_an_end_that_race_leave_one_story(worker):
    row = rows.running(worker)
    handed, finished = race(
        lambda: task_handles.hand_over(row.pk),
        lambda: transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT),
    )
    assert finished == Status.COMPLETED
    assert (rows.fresh(row).task_handle is not None) == (handed is not None)
    assert rows.numbers(row) == list(range(1, rows.fresh(row).event_seq + 1))


@pytest.mark.parametrize("submit", [task, rows.queued])
def test_a_claim_that_races_with_a_hand_over_takes_and_so_does_the_hand_over(worker, submit):
    with races(2) as race:
        for _ in range(20):
            row = submit()
            claimed, handed = race.run(
                lambda row=row: transitions.claim(row.pk, worker=worker, pid=1),
                lambda row=row: task_handles.hand_over(row.pk),
            )
            assert claimed is not None
            assert handed is not None
            assert rows.fresh(row).status == Status.RUNNING
            assert rows.numbers(row) == [1, 2, 3]


def test_a_caller_has_only_so_many_open_tasks(worker, configure):
    configure(MAX_OPEN_TASKS_PER_PRINCIPAL=2)
    first, _ = running_task(worker), task()
    assert task_handles.submit(rows.submission()) is None
    assert Request.objects.filter(status__in=OPEN).count() == 2
    waiting = rows.queued()
    assert task_handles.hand_over(waiting.pk) is None
    assert task_handles.submit(rows.submission(principal=rows.STRANGER)) is not None
    transitions.finish(first.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert task_handles.hand_over(waiting.pk) is not None


def test_every_server_is_woken_for_a_task(worker, server, monkeypatch):
    woken = []
    monkeypatch.setattr(wakeups, "wake_server", lambda server, request_ids: woken.append((server, *request_ids)))
    alive = set(Process.objects.filter(role=ProcessRole.SERVER).values_list("pk", flat=True))
    row = running_task(worker, server=server)
    woken.clear()
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert alive == {server}
    assert set(woken) == {(server, row.pk)}


def test_a_key_is_kept_while_its_question_is_open_and_never_used_for_another(worker):
    row = asking_task(worker, {**rows.QUESTIONS, **AGE})
    assert task_inputs.keys(row) == {"name": "name", "age": "age"}
    row = task_inputs.answer(row.pk, row.input_round, {"age": FORTY})
    assert task_inputs.open_questions(row) == rows.QUESTIONS
    row = task_inputs.answer(row.pk, row.input_round, rows.ADA_SAYS)
    assert row.status == Status.QUEUED
    assert transitions.claim(row.pk, worker=worker, pid=1)
    input_rounds.ask(row.pk, {**AGE}, worker=worker)
    row = rows.fresh(row)
    [key] = task_inputs.open_questions(row)
    assert key not in {"name", "age"}
    assert task_inputs.keys(row) == {key: "age"}


def test_answers_of_two_clients_at_once_are_both_taken(worker):
    row = asking_task(worker, {**rows.QUESTIONS, **AGE})
    race(
        lambda: task_inputs.answer(row.pk, 1, rows.ADA_SAYS),
        lambda: task_inputs.answer(row.pk, 1, {"age": FORTY}),
    )
    row = rows.fresh(row)
    assert (row.status, row.answers) == (Status.QUEUED, {**rows.ADA_SAYS, "age": FORTY})


def test_an_answer_of_an_earlier_round_or_to_nothing_changes_nothing(worker):
    row = asking_task(worker)
    before = rows.everything(row)
    assert task_inputs.answer(row.pk, 0, rows.ADA_SAYS) is None
    assert task_inputs.answer(row.pk, 1, {"age": FORTY}) is None
    assert rows.everything(row) == before
    assert task_inputs.answer(row.pk, 1, rows.ADA_SAYS) is not None
    assert task_inputs.answer(row.pk, 1, {"name": {"action": "decline"}}) is None
    assert rows.fresh(row).answers == rows.ADA_SAYS


def test_an_answered_task_that_was_not_published_is_found_by_supervision(worker, monkeypatch):
    row = asking_task(worker)
    assert task_inputs.answer(row.pk, 1, rows.ADA_SAYS).published_at is None
    Request.objects.update(queued_at="2020-01-01T00:00:00Z")
    rounds.republish_unclaimed_requests()
    assert rows.fresh(row).published_at is not None
