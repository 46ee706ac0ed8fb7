"""Every legal step succeeds, and any other leaves the row unchanged. Events are numbered without gaps."""

from functools import partial
from itertools import product
from uuid import uuid4

import pytest

from mcp_app import databases
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import TERMINAL, TRANSITIONS, Cause, EventKind, Outcome, Stage, Status
from tests.support import rows
from tests.support.racing import often, race, races

STEPS = [*sorted(TERMINAL), Status.RUNNING]
LEGAL = [(source, target) for source, target in product(Status, STEPS) if target in TRANSITIONS[source]]
ILLEGAL = [(source, target) for source, target in product(Status, STEPS) if target not in TRANSITIONS[source]]


def row_at(status, worker, *, cancelled):
    """A row in `status`, reached by any steps."""
    row = rows.queued()
    owned = {"worker": worker, "worker_pid": 1} if status != Status.QUEUED else {}
    intent = {"cancel_requested_at": Now(), "cancel_cause": Cause.CLIENT} if cancelled else {}
    Request.objects.filter(pk=row.pk).update(status=status, **owned, **intent)
    return rows.fresh(row)


def step(row, target, worker):
    if target == Status.RUNNING:
        return transitions.claim(row.pk, worker=worker, pid=2)
    runs = row.status == Status.RUNNING
    return transitions.finish(row.pk, target, worker=row.worker if runs else None, result={"content": []})


@pytest.mark.parametrize(("source", "target"), LEGAL)
def test_a_legal_step_takes_and_is_told(source, target, worker):
    row = row_at(source, worker, cancelled=target == Status.CANCELLED)
    assert step(row, target, worker) is not None
    after = rows.fresh(row)
    assert after.status == target
    assert after.event_seq == row.event_seq + 1
    assert rows.story(row)[-1][1]["status"] == target
    assert (after.finished_at is not None) == (target in TERMINAL)


@pytest.mark.parametrize(("source", "target"), ILLEGAL)
def test_an_illegal_step_does_not_take_and_leaves_the_row_untouched(source, target, worker):
    row = row_at(source, worker, cancelled=target == Status.CANCELLED)
    before = rows.everything(row)
    assert step(row, target, worker) is None
    assert rows.everything(row) == before


@pytest.mark.parametrize("status", sorted(set(Status) - TERMINAL))
def test_only_an_end_can_finish_a_request(status, worker):
    with pytest.raises(ValueError, match="not an end"):
        transitions.finish(rows.running(worker).pk, status, worker=worker)


def test_a_submitted_request_is_queued_with_its_first_event_and_a_deadline_for_its_claim(configure):
    configure(MAX_QUEUE_SECONDS=60.0)
    row = rows.fresh(rows.queued(jsonrpc_id="", progress_token=0))
    assert (row.status, row.event_seq, rows.numbers(row)) == (Status.QUEUED, 1, [1])
    assert (row.jsonrpc_id, row.progress_token) == ("", 0)
    assert (row.deadline_at - row.submitted_at).total_seconds() == pytest.approx(60, abs=1)


def test_a_submission_stored_twice_is_one_row():
    submission = rows.submission()
    first, second = transitions.submit(submission), transitions.submit(submission)
    assert first.pk == second.pk
    assert rows.numbers(first) == [1]


def test_a_claim_gives_the_worker_what_it_needs_and_sets_the_deadline_for_the_end(worker):
    row = rows.running(worker, time_limit=30.0)
    stored = rows.fresh(row)
    assert (row.worker, row.worker_pid, row.event_seq) == (worker, 4711, 2)
    assert (stored.worker, stored.worker_pid, stored.event_seq) == (worker, 4711, 2)
    assert row.arguments == {"depth": 3}
    assert (stored.deadline_at - stored.claimed_at).total_seconds() == pytest.approx(30, abs=1)


@pytest.mark.fault("C10")
def test_of_two_workers_one_gets_the_row():
    with races(2) as race:
        for _ in range(50):
            row, first, second = rows.queued(), uuid4(), uuid4()
            claims = race.run(*(partial(transitions.claim, row.pk, worker=worker, pid=1) for worker in (first, second)))
            [won] = [claim for claim in claims if claim is not None]
            assert rows.fresh(row).worker == won.worker
            assert rows.numbers(row) == [1, 2]


def test_an_unknown_row_is_neither_claimed_nor_finished_nor_recorded(worker):
    assert transitions.claim(uuid4(), worker=worker, pid=1) is None
    assert transitions.finish(uuid4(), Status.LOST) is None
    assert transitions.record(uuid4(), [Event(EventKind.LOG, {})]) is False


def test_a_result_is_stored_and_ends_the_deadline(worker):
    row = rows.running(worker)
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT) == Status.COMPLETED
    after = rows.fresh(row)
    assert (after.result, after.deadline_at, after.error) == (rows.RESULT, None, None)
    assert Request.objects.filter(pk=row.pk, partial_result__isnull=True, error__isnull=True).exists()


@pytest.mark.fault("B12")
def test_a_result_after_the_end_is_refused(worker):
    row = rows.stopping(worker)
    assert transitions.finish(row.pk, Status.CANCELLED, worker=worker) == Status.CANCELLED
    before = rows.everything(row)
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT) is None
    assert rows.everything(row) == before


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_worker_that_does_not_own_the_row_cannot_end_it(status, worker):
    row = rows.stopping(worker)
    before = rows.everything(row)
    assert transitions.finish(row.pk, status, worker=uuid4()) is None
    assert rows.everything(row) == before


@pytest.mark.fault("B12")
def test_a_worker_whose_run_has_asked_cannot_end_the_request_any_more(worker):
    asking = rows.asking(worker)
    answered = rows.answer(rows.asking(worker))
    for row in (asking, answered):
        before = rows.everything(row)
        assert transitions.finish(row.pk, Status.FAILED, worker=worker, error={"cause": "storage"}) is None
        assert rows.everything(row) == before


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_nobody_but_its_worker_says_how_a_running_request_came_out(status, worker):
    row = rows.running(worker)
    assert transitions.finish(row.pk, status, error={"cause": "broker"}) is None
    assert rows.fresh(row).status == Status.RUNNING


def test_nothing_is_cancelled_that_nobody_asked_to_cancel(worker):
    row = rows.running(worker)
    assert transitions.finish(row.pk, Status.CANCELLED, worker=worker) is None
    assert rows.fresh(row).status == Status.RUNNING


@pytest.mark.fault("B2")
def test_a_failure_after_an_accepted_cancellation_is_cancelled_and_keeps_its_error(worker):
    row = rows.stopping(worker)
    error, told = {"cause": "tool", "type": "ValueError"}, {"content": [], "isError": True}
    status = transitions.finish(row.pk, Status.FAILED, worker=worker, stage=Stage.INTERRUPT, result=told, error=error)
    after = rows.fresh(row)
    assert status == after.status == Status.CANCELLED
    assert (after.error, after.result, after.partial_result) == (error, None, told)
    [attempt] = rows.audited(row)
    assert (attempt.outcome, attempt.status_after, attempt.stage) == ("accepted", "cancelled", Stage.INTERRUPT)


def test_a_partial_result_survives_a_failure_after_the_cancellation(worker):
    row = rows.stopping(worker)
    transitions.finish(row.pk, Status.FAILED, worker=worker, partial_result=rows.RESULT)
    assert rows.fresh(row).partial_result == rows.RESULT


def test_a_success_that_lands_before_the_stop_stays_and_the_cancellation_was_too_late(worker):
    row = rows.stopping(worker)
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT) == Status.COMPLETED
    [attempt] = rows.audited(row)
    assert (attempt.outcome, attempt.status_before, attempt.status_after) == ("too_late", "running", "completed")
    assert attempt.settled_at is not None
    assert attempt.latency_ms >= 0


def test_the_stage_only_grows(worker):
    row = rows.stopping(worker)
    assert transitions.reach_stage(row.pk, Stage.INTERRUPT) is True
    assert transitions.reach_stage(row.pk, Stage.COOPERATIVE) is False
    transitions.finish(row.pk, Status.CANCELLED, worker=worker, stage=Stage.COOPERATIVE)
    assert rows.fresh(row).stage == Stage.INTERRUPT
    assert [data["stage"] for _, data in rows.story(row, EventKind.STAGE)] == ["interrupt"]


def test_progress_is_told_and_its_newest_is_in_the_row(worker):
    row = rows.running(worker)
    steps = [Event(EventKind.PROGRESS, {"progress": done}) for done in (1, 2.5)]
    assert transitions.record(row.pk, steps, progress=2.5, progress_total=4, progress_message="half") is True
    after = rows.fresh(row)
    assert (after.progress, after.progress_total, after.progress_message) == (2.5, 4, "half")
    assert [data["progress"] for _, data in rows.story(row, EventKind.PROGRESS)] == [1, 2.5]


def test_progress_is_recorded_after_a_transaction_that_was_rolled_back(worker):
    row = rows.running(worker)
    for done in (1, 2):
        with databases.atomic():
            assert transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": done})])
            databases.connection().set_rollback(True)
    assert transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": 3})])
    assert [data["progress"] for _, data in rows.story(row, EventKind.PROGRESS)] == [3]


@pytest.mark.fault("E6")
def test_progress_after_the_end_is_refused(worker):
    row = rows.running(worker)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    before = rows.everything(row)
    assert transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": 1})], progress=1) is False
    assert transitions.reach_stage(row.pk, Stage.KILL) is False
    assert rows.everything(row) == before


def test_what_databases_refuse_closes_the_row_all_the_same(worker):
    row = rows.running(worker)
    line = Event(EventKind.LOG, {"data": "a\x00b", "numbers": [float("nan"), 1.0]})
    assert transitions.record(row.pk, [line], progress_message="c\x00d")
    assert transitions.finish(row.pk, Status.FAILED, worker=worker, error={"message": "\x00 \ud800"})
    after = rows.fresh(row)
    assert (after.status, after.progress_message) == (Status.FAILED, "c\ufffdd")
    assert after.error == {"message": "\ufffd \ufffd"}
    assert rows.story(row, EventKind.LOG) == [("log", {"data": "a\ufffdb", "numbers": [None, 1.0]})]


def test_events_are_numbered_without_gaps_or_repeats_whoever_writes_them(worker):
    lines = 25

    def report(row):
        for done in range(lines):
            pair = [Event(EventKind.PROGRESS, {"progress": done}), Event(EventKind.LOG, {"data": done})]
            assert transitions.record(row.pk, pair, progress=done)

    def climb(row):
        return sum(transitions.reach_stage(row.pk, stage) for stage in Stage if stage)

    row = rows.running(worker)
    *_, climbed, accepted = race(
        partial(report, row), partial(report, row), partial(climb, row), partial(rows.cancel, row)
    )
    assert (climbed, accepted) == (3, Outcome.ACCEPTED)
    assert rows.numbers(row) == list(range(1, 2 + 4 * lines + 3 + 1 + 1))
    assert rows.fresh(row).event_seq == rows.numbers(row)[-1]


def test_a_kill_needs_an_accepted_cancellation_and_the_worker_that_owns_the_row(worker):
    row = rows.running(worker)
    assert transitions.begin_kill(row.pk, worker=worker) is False
    rows.cancel(row)
    assert transitions.begin_kill(row.pk, worker=uuid4()) is False
    assert transitions.begin_kill(row.pk, worker=worker) is True
    assert transitions.begin_kill(row.pk, worker=worker) is False
    assert rows.fresh(row).stage == Stage.KILL


def test_behind_the_fence_only_the_killer_closes_the_row(worker):
    row = rows.stopping(worker)
    assert transitions.begin_kill(row.pk, worker=worker)
    for status in TERMINAL:
        assert transitions.finish(row.pk, status, worker=worker) is None
    assert transitions.finish(row.pk, Status.CANCELLED, worker=worker, fenced=True) == Status.CANCELLED
    [attempt] = rows.audited(row)
    assert (attempt.stage, attempt.status_after) == (Stage.KILL, "cancelled")


def test_without_the_fence_the_killer_closes_nothing(worker):
    row = rows.stopping(worker)
    assert transitions.finish(row.pk, Status.CANCELLED, worker=worker, fenced=True) is None
    assert rows.fresh(row).status == Status.RUNNING


def test_after_the_end_no_kill_begins(worker):
    row = rows.stopping(worker)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert transitions.begin_kill(row.pk, worker=worker) is False


@often
def test_a_kill_and_an_end_at_one_moment_have_one_winner(worker, times):
    def kill(row):
        began = transitions.begin_kill(row.pk, worker=worker)
        return began and transitions.finish(row.pk, Status.CANCELLED, worker=worker, fenced=True)

    def end(row):
        return transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)

    with races(2) as race:
        for _ in range(times):
            row = rows.stopping(worker)
            killed, ended = race.run(partial(kill, row), partial(end, row))
            assert (killed, ended) in [(Status.CANCELLED, None), (False, Status.COMPLETED)]
            assert rows.fresh(row).status == (killed or ended)
