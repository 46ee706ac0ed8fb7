"""Every cancellation takes the same path: one winner, the first cause, and an audit row for every attempt."""

from functools import partial
from uuid import UUID, uuid4

import pytest
from django.conf import settings as django_settings
from django.db import transaction

from mcp_app import databases
from mcp_app.lifecycle.audit.attempts import SYSTEM, Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.liveness.wakeups import listening_socket
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Cancellation, Request
from mcp_app.states import TERMINAL, Cause, EventKind, Outcome, Stage, Status
from tests.support import rows
from tests.support.racing import often, races


@pytest.mark.fault("A3")
def test_cancelling_a_queued_request_closes_it_and_the_claim_refuses(worker):
    row = rows.queued()
    assert rows.cancel(row, reason="changed my mind") == Outcome.ACCEPTED
    after = rows.fresh(row)
    assert (after.status, after.cancel_cause, after.cancel_reason) == ("cancelled", "client", "changed my mind")
    assert transitions.claim(row.pk, worker=worker, pid=1) is None
    [attempt] = rows.audited(row)
    assert (attempt.status_before, attempt.status_after, attempt.stage) == ("queued", "cancelled", Stage.NONE)
    assert attempt.settled_at is not None
    assert attempt.latency_ms >= 0
    assert rows.numbers(row) == [1, 2, 3]


def test_a_request_that_waits_for_its_user_is_closed_at_once(worker):
    row = rows.asking(worker)
    assert rows.cancel(row) == Outcome.ACCEPTED
    assert rows.fresh(row).status == Status.CANCELLED
    assert rows.answer(row) is None


def test_cancelling_a_running_request_stores_the_intent_and_claims_nothing(worker):
    row = rows.running(worker)
    assert rows.cancel(row, Cause.ADMIN, "too dear", actor=Actor("root", "192.0.2.1")) == Outcome.ACCEPTED
    after = rows.fresh(row)
    assert (after.status, after.cancel_cause, after.cancel_actor) == (Status.RUNNING, "admin", "root")
    [attempt] = rows.audited(row)
    assert (attempt.actor, attempt.actor_address, attempt.reason) == ("root", "192.0.2.1", "too dear")
    assert (attempt.tool, attempt.principal_label, attempt.subject) == ("dig", "Ada", "7")
    assert (attempt.settled_at, attempt.status_after) == (None, "")
    assert rows.story(row, EventKind.CANCEL) == [("cancel", {"cause": "admin", "actor": "root", "reason": "too dear"})]


def test_the_proof_of_the_stop_completes_the_audit(worker):
    row = rows.stopping(worker)
    transitions.finish(row.pk, Status.CANCELLED, worker=worker, stage=Stage.COOPERATIVE)
    [attempt] = rows.audited(row)
    after = rows.fresh(row)
    assert (attempt.outcome, attempt.status_after, attempt.stage) == ("accepted", "cancelled", Stage.COOPERATIVE)
    assert attempt.stopped_at == after.finished_at
    asked_for = after.finished_at - after.cancel_requested_at
    assert attempt.latency_ms == pytest.approx(asked_for.total_seconds() * 1000)
    assert attempt.latency_ms >= 0


@often
@pytest.mark.fault("B1")
def test_of_a_cancellation_and_a_completion_at_one_moment_both_are_told_as_they_were(worker, times):
    def complete(row):
        return transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)

    with races(2) as race:
        for _ in range(times):
            row = rows.running(worker)
            outcome, completed = race.run(partial(rows.cancel, row), partial(complete, row))
            assert outcome in (Outcome.ACCEPTED, Outcome.TOO_LATE)
            assert completed == rows.fresh(row).status == Status.COMPLETED
            # The attempt was accepted, but the result was stored before the stop. So it ends as too late.
            [attempt] = rows.audited(row)
            assert (attempt.outcome, attempt.status_after) == ("too_late", "completed")
            assert attempt.settled_at is not None
            assert attempt.status_before == ("running" if outcome == Outcome.ACCEPTED else "completed")


@often
@pytest.mark.fault("B1")
def test_of_a_stop_and_a_completion_at_one_moment_one_wins(worker, times):
    def complete(row):
        return transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)

    def stop(row):
        outcome = rows.cancel(row)
        return outcome, transitions.finish(row.pk, Status.CANCELLED, worker=worker, stage=Stage.INTERRUPT)

    with races(2) as race:
        for _ in range(times):
            row = rows.running(worker)
            completed, (outcome, stopped) = race.run(partial(complete, row), partial(stop, row))
            [winner] = [status for status in (completed, stopped) if status]
            after = rows.fresh(row)
            assert after.status == winner
            assert (after.result is None) == (winner == Status.CANCELLED)
            [attempt] = rows.audited(row)
            assert attempt.outcome == ("accepted" if winner == Status.CANCELLED else "too_late")
            assert (attempt.status_after, outcome == Outcome.TOO_LATE) == (winner, after.cancel_cause == "")
            assert rows.numbers(row) == list(range(1, after.event_seq + 1))


@often
def test_of_a_cancellation_and_a_claim_at_one_moment_the_tool_is_not_called_or_is_told(worker, times):
    with races(2) as race:
        for _ in range(times):
            row = rows.queued()
            claimed, outcome = race.run(
                partial(transitions.claim, row.pk, worker=worker, pid=1), partial(rows.cancel, row)
            )
            assert outcome == Outcome.ACCEPTED
            assert rows.fresh(row).status == (Status.RUNNING if claimed else Status.CANCELLED)
            assert rows.fresh(row).cancel_requested_at is not None


def test_a_hundred_cancellations_at_once_are_one(worker):
    row = rows.running(worker)
    with races(10) as race:
        told = [outcome for _ in range(10) for outcome in race.run(*[partial(rows.cancel, row)] * 10)]
    assert sorted(told) == [Outcome.ACCEPTED] + [Outcome.DUPLICATE] * 99
    assert sorted(rows.outcomes(row)) == [Outcome.ACCEPTED] + [Outcome.DUPLICATE] * 99
    assert len(rows.story(row, EventKind.CANCEL)) == 1


@pytest.mark.fault("B4")
def test_the_first_cause_stays_and_the_others_are_listed(worker):
    row = rows.running(worker)
    for cause in (Cause.ADMIN, Cause.CLIENT, Cause.DEADLINE):
        rows.cancel(row, cause, f"because of {cause}")
    after = rows.fresh(row)
    assert (after.cancel_cause, after.cancel_reason) == ("admin", "because of admin")
    assert [(attempt.cause, attempt.outcome) for attempt in rows.audited(row)] == [
        ("admin", "accepted"),
        ("client", "duplicate"),
        ("deadline", "duplicate"),
    ]


def test_only_the_accepted_attempt_is_completed_by_the_end(worker):
    row = rows.stopping(worker)
    rows.cancel(row, Cause.ADMIN)
    transitions.finish(row.pk, Status.CANCELLED, worker=worker)
    accepted, duplicate = rows.audited(row)
    assert accepted.latency_ms is not None
    assert (duplicate.latency_ms, duplicate.stopped_at, duplicate.status_after) == (None, None, "running")


@pytest.mark.fault("B5")
def test_another_principals_cancellation_is_denied_audited_and_without_effect(worker):
    row = rows.running(worker)
    before, told = Request.objects.values().get(pk=row.pk), rows.story(row)
    assert rows.cancel(row, principal=rows.STRANGER, actor=Actor("Eve")) == Outcome.DENIED
    assert (Request.objects.values().get(pk=row.pk), rows.story(row)) == (before, told)
    [attempt] = rows.audited(row)
    assert (attempt.outcome, attempt.actor, attempt.principal_label) == ("denied", "Eve", "Ada")


def test_another_principals_cancellation_is_denied_after_the_end_too():
    row = rows.queued()
    rows.cancel(row)
    assert rows.cancel(row, principal=rows.STRANGER) == Outcome.DENIED


def test_its_own_principal_may_cancel_a_request(worker):
    assert rows.cancel(rows.running(worker), principal=rows.OWNER) == Outcome.ACCEPTED


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_finished_request_is_too_late_to_cancel(status, worker):
    row = rows.stopping(worker) if status == Status.CANCELLED else rows.running(worker)
    transitions.finish(row.pk, status, worker=worker)
    before = Request.objects.values().get(pk=row.pk)
    assert rows.cancel(row) == Outcome.TOO_LATE
    assert Request.objects.values().get(pk=row.pk) == before
    assert rows.outcomes(row)[-1] == Outcome.TOO_LATE
    assert rows.audited(row)[-1].status_before == status


@pytest.mark.parametrize("unknown", ["", "7", "no id", "x" * 5000, "\r\n\x1b[2J\x00", str(UUID(int=1))])
def test_an_unknown_or_malformed_id_is_audited_and_nothing_else(unknown):
    outcome = cancellation.cancel(unknown, cause=Cause.CLIENT, actor=rows.ADA)
    assert outcome == Outcome.UNKNOWN
    [attempt] = Cancellation.objects.all()
    assert (attempt.outcome, attempt.request_id) == ("unknown", None)
    assert attempt.requested_id.isprintable()
    assert len(attempt.requested_id) <= 255
    assert not Request.objects.exists()


def test_a_request_is_found_by_its_id_as_text():
    row = rows.queued()
    assert cancellation.cancel(str(row.pk), cause=Cause.ADMIN, actor=SYSTEM) == Outcome.ACCEPTED


@pytest.mark.fault("G13")
def test_what_an_asker_says_reaches_neither_log_nor_terminal_nor_column_raw(worker, configure, caplog):
    configure(MAX_REASON_CHARS=5000)
    row = rows.running(worker, client_info={"name": "evil\r\nclient\x1b]0;title\x07"})
    forged = "stop\r\nINFO forged line\x1b[31m red\x9b2J \u202e\u2028\x00\ud800" + "x" * 5000
    with caplog.at_level("INFO", logger="mcp_app.lifecycle"):
        rows.cancel(row, reason=forged, actor=Actor("Ada\nroot" + "y" * 500, "::1%" + "z" * 100))
    [attempt] = rows.audited(row)
    after = rows.fresh(row)
    for text in (attempt.reason, attempt.actor, attempt.actor_address, attempt.client_name, after.cancel_actor):
        assert text.isprintable()
    assert all("\n" not in record.getMessage() for record in caplog.records)
    assert attempt.reason.startswith("stop INFO forged line red")
    assert "31m" not in attempt.reason
    assert attempt.client_name == "evil client"
    assert (len(attempt.reason), len(attempt.actor), len(attempt.actor_address)) == (1024, 255, 64)
    assert after.cancel_reason == attempt.reason


def test_a_reason_is_no_longer_than_the_site_allows(worker, configure):
    configure(MAX_REASON_CHARS=10)
    row = rows.stopping(worker, reason="a very long story")
    assert row.cancel_reason == "a very lon"


def test_a_cancellation_inside_a_rolled_back_transaction_never_was(worker, server):
    row = rows.running(worker, server=server)
    with listening_socket(server.hex) as listener:
        with databases.atomic():
            rows.cancel(row)
            transaction.set_rollback(True, using=django_settings.MCP_DATABASE)
        with pytest.raises(BlockingIOError):
            listener.recv(1)
    assert (rows.outcomes(row), rows.fresh(row).cancel_requested_at) == ([], None)


def test_an_accepted_cancellation_wakes_the_server_that_waits(worker, server):
    row = rows.running(worker, server=server)
    with listening_socket(server.hex) as listener:
        rows.cancel(row)
        assert listener.recv(1)


def test_a_crowd_is_cancelled_in_one_transaction_each_with_its_own_outcome(worker):
    queued, running, ended = rows.queued(), rows.running(worker), rows.queued()
    rows.cancel(ended)
    asked = [queued.pk, running.pk, ended.pk, uuid4(), "not an id", queued.pk]
    outcomes = cancellation.cancel_all([CancellationRequest(each, Cause.DISCONNECT, SYSTEM) for each in asked])
    assert outcomes == [
        *(Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.TOO_LATE),
        *(Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.TOO_LATE),
    ]
    assert Cancellation.objects.count() == len(asked) + 1
    assert rows.fresh(queued).status == Status.CANCELLED
    assert rows.fresh(running).cancel_requested_at is not None
