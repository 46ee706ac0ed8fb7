"""Supervision finds lost requests and ends expired ones. Repeating a step changes nothing."""

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.db.models import F

from mcp_app.auth.local import local_principal
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.observation import final_result
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Cancellation, Process, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Cause, Outcome, ProcessRole, Status
from tests.support import brokers, rows
from tests.support.racing import race


def later(seconds):
    """Make all rows older."""
    past = timedelta(seconds=seconds)
    Process.objects.update(heartbeat_at=F("heartbeat_at") - past)
    for column in ("submitted_at", "queued_at", "published_at", "claimed_at", "deadline_at"):
        Request.objects.filter(**{f"{column}__isnull": False}).update(**{column: F(column) - past})


def alive(role=ProcessRole.WORKER):
    identity = Identity(role)
    processes.beat(identity)
    return identity


def words(row):
    [block] = final_result(rows.fresh(row))["content"]
    return block["text"]


@pytest.mark.fault("C2")
def test_requests_of_a_silent_worker_are_lost_and_their_clients_get_an_error(worker):
    row = rows.running(worker)
    later(11)
    rounds.supervise()
    after = rows.fresh(row)
    assert (after.status, after.error["cause"]) == (Status.LOST, "lost")
    assert final_result(after)["isError"] is True
    assert "not run again" in words(row)


def test_requests_of_a_worker_that_stopped_are_lost_at_once():
    identity = alive()
    row = rows.running(identity.boot_id)
    processes.stop(identity)
    rounds.supervise()
    assert rows.fresh(row).status == Status.LOST


@pytest.mark.fault("C4")
def test_requests_of_an_unknown_worker_are_lost():
    row = rows.running(uuid4())
    rounds.supervise()
    assert rows.fresh(row).status == Status.LOST


def test_requests_of_a_live_worker_and_server_are_not_changed(worker, server):
    row = rows.running(worker, server=server)
    waiting = rows.queued(server=server)
    later(9)
    before = rows.everything(row)
    rounds.supervise()
    assert rows.everything(row) == before
    assert rows.fresh(waiting).status == Status.QUEUED


def test_a_heartbeat_brings_a_silent_worker_back():
    identity = alive()
    row = rows.running(identity.boot_id)
    later(60)
    processes.beat(identity)
    rounds.supervise()
    assert rows.fresh(row).status == Status.RUNNING


def test_a_half_killed_request_of_a_silent_worker_is_lost(worker):
    row = rows.stopping(worker)
    assert transitions.begin_kill(row.pk, worker=worker)
    later(11)
    rounds.supervise()
    assert rows.fresh(row).status == Status.LOST
    [attempt] = rows.audited(row)
    assert (attempt.status_after, attempt.settled_at is not None) == ("lost", True)


def test_a_late_step_for_one_worker_does_not_lose_the_request_of_another(worker):
    row = rows.running(worker)
    assert rounds.mark_lost(row.pk, "silent", worker=uuid4()) is False
    assert rows.fresh(row).status == Status.RUNNING


def test_calls_of_a_silent_server_are_cancelled(worker):
    gone, here = alive(ProcessRole.SERVER), alive(ProcessRole.SERVER)
    orphan = rows.running(worker, server=gone.boot_id)
    queued = rows.queued(server=gone.boot_id)
    kept = rows.running(worker, server=here.boot_id)
    unattended = rows.running(worker)
    later(11)
    for identity in (here, Identity(ProcessRole.WORKER, boot_id=worker)):
        processes.beat(identity)
    rounds.supervise()
    assert rows.fresh(orphan).cancel_cause == Cause.LOST_SERVER
    assert rows.fresh(queued).status == Status.CANCELLED
    assert rows.fresh(kept).cancel_requested_at is None
    assert rows.fresh(unattended).cancel_requested_at is None


@pytest.mark.parametrize("cancels", [True, False])
def test_calls_of_a_silent_stdio_server_are_cancelled_in_legacy_sessions(worker, configure, cancels):
    configure(SESSIONLESS_DISCONNECT_CANCELS=cancels)
    gone = {"server": alive(ProcessRole.SERVER).boot_id, "principal": local_principal()}
    old, modern = ({**gone, "protocol_version": version} for version in ("2025-06-18", "2026-07-28"))
    running, asking, comes_back = rows.running(worker, **old), rows.asking(worker, **old), rows.asking(worker, **modern)
    later(11)
    processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
    rounds.supervise()
    assert rows.fresh(running).cancel_cause == Cause.LOST_SERVER
    assert rows.fresh(asking).status == Status.CANCELLED
    assert rows.fresh(comes_back).status == Status.INPUT_REQUIRED


def test_a_request_that_waited_too_long_for_a_worker_is_cancelled(configure):
    configure(MAX_QUEUE_SECONDS=5.0)
    row = rows.queued()
    later(6)
    rounds.supervise()
    assert (rows.fresh(row).status, rows.fresh(row).cancel_cause) == (Status.CANCELLED, Cause.DEADLINE)
    assert "time limit" in words(row)


def test_a_request_that_runs_too_long_is_asked_to_stop_by_its_worker_alone(worker):
    row = rows.running(worker, time_limit=5.0)
    later(6)
    rounds.supervise()
    assert rows.fresh(row).cancel_cause == ""
    rounds.cancel_at_limit(Request.objects.filter(pk=row.pk))
    after = rows.fresh(row)
    assert (after.status, after.cancel_cause) == (Status.RUNNING, Cause.DEADLINE)
    assert [attempt.actor for attempt in rows.audited(row)] == ["system"]


def test_a_request_is_asked_to_stop_only_once(worker):
    row = rows.stopping(worker, time_limit=5.0)
    later(6)
    rounds.supervise()
    assert rows.fresh(row).cancel_cause == Cause.CLIENT
    assert len(rows.audited(row)) == 1


def test_an_unclaimed_request_is_published_again_after_twice_as_long_each_time(configure):
    configure(REPUBLISH_AFTER=10.0)
    row, age, wait = rows.queued(), 0, 10
    for _ in range(4):
        later(wait - 5)
        rounds.supervise()
        assert brokers.waiting(row.queue) == []
        later(10)
        rounds.supervise()
        assert brokers.waiting(row.queue) == [str(row.pk)]
        age = wait = age + wait + 5


def test_a_claimed_request_is_not_published_again(worker):
    row = rows.running(worker)
    later(9)
    Request.objects.filter(pk=row.pk).update(queued_at=Now() - timedelta(days=1))
    rounds.republish_unclaimed_requests()
    assert brokers.waiting(row.queue) == []


def test_a_queued_request_does_not_wait_behind_newer_ones(monkeypatch):
    monkeypatch.setattr(rounds, "BATCH", 2)
    oldest = rows.queued()
    later(5)
    for _ in range(3):
        rows.queued()
    later(20)
    rounds.republish_unclaimed_requests()
    assert brokers.waiting(oldest.queue) == [str(oldest.pk)]


@pytest.mark.fault("C14")
def test_many_supervisors_publish_a_request_once():
    row = rows.queued()
    later(20)
    race(*[rounds.republish_unclaimed_requests] * 4)
    assert brokers.waiting(row.queue) == [str(row.pk)]


def test_a_request_that_could_not_be_published_stays_due(configure, caplog):
    configure(PUBLISH_TIMEOUT=0.5)
    row = rows.queued()
    later(20)
    with brokers.refusing_port() as port, brokers.celery_on(brokers.URLS["amqp"].format(port=port)):
        rounds.supervise()
    assert rows.fresh(row).published_at is None
    assert "republish_unclaimed_requests failed" in caplog.text
    rounds.supervise()
    assert brokers.waiting(row.queue) == [str(row.pk)]


@pytest.mark.fault("C14")
def test_repeating_a_step_changes_nothing(worker):
    lost, late = rows.running(uuid4()), rows.running(worker, time_limit=1.0)
    orphan, queued = rows.running(worker, server=uuid4()), rows.queued()
    later(12)
    processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
    rounds.supervise()
    told = [rows.everything(row) for row in (lost, late, orphan, queued)]
    assert brokers.waiting(queued.queue) == [str(queued.pk)]
    rounds.supervise()
    assert [rows.everything(row) for row in (lost, late, orphan, queued)] == told
    assert brokers.waiting(queued.queue) == []


@pytest.mark.fault("C14")
def test_supervisors_at_one_moment_close_a_request_once(worker):
    lost = [rows.running(uuid4()) for _ in range(10)]
    race(*[rounds.supervise] * 3)
    for row in lost:
        assert rows.fresh(row).status == Status.LOST
        assert rows.numbers(row) == [1, 2, 3]


@pytest.mark.fault("C14")
def test_a_request_that_another_supervisor_has_cancelled_gets_no_second_attempt(worker, monkeypatch):
    orphans = [rows.running(worker, server=uuid4()), rows.queued(server=uuid4())]
    later(11)
    processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
    share = processes.share

    def slower(found):
        found = list(found)
        with monkeypatch.context() as patched:
            patched.setattr(processes, "share", share)
            rounds.cancel_requests_of_silent_servers()
        return found

    monkeypatch.setattr(processes, "share", slower)
    rounds.cancel_requests_of_silent_servers()
    attempts = Cancellation.objects.values_list("request_id", "outcome")
    assert sorted(attempts) == sorted((row.pk, Outcome.ACCEPTED) for row in orphans)


@pytest.mark.fault("I2")
def test_I2_supervision_cancels_queued_requests_before_running_ones(worker, monkeypatch):
    running, queued = rows.running(worker, server=uuid4()), rows.queued(server=uuid4())
    later(11)
    processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))
    monkeypatch.setattr(rounds, "BATCH", 1)
    rounds.cancel_requests_of_silent_servers()
    assert (rows.fresh(queued).status, rows.fresh(running).cancel_cause) == (Status.CANCELLED, "")


def test_a_step_that_fails_does_not_prevent_the_others(worker, caplog, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("the queue is on fire")

    monkeypatch.setattr(rounds.publishing, "send", fail)
    waiting, late = rows.queued(), rows.queued(caller_limit=1.0)
    later(9)
    Request.objects.filter(pk=waiting.pk).update(queued_at=Now() - timedelta(seconds=60))
    long_gone = Identity(ProcessRole.SERVER)
    processes.beat(long_gone)
    Process.objects.filter(boot_id=long_gone.boot_id).update(heartbeat_at=Now() - timedelta(days=2))
    rounds.supervise()
    assert "on fire" in caplog.text
    assert rows.fresh(late).cancel_cause == Cause.DEADLINE
    assert not Process.objects.filter(boot_id=long_gone.boot_id).exists()


def test_processes_are_remembered_for_a_day(worker):
    later(86_000)
    rounds.supervise()
    assert Process.objects.filter(boot_id=worker).exists()
    later(1_000)
    rounds.supervise()
    assert not Process.objects.filter(boot_id=worker).exists()


def test_concurrent_heartbeats_register_a_process_once():
    identity = Identity(ProcessRole.WORKER)
    race(*[partial(processes.beat, identity)] * 4)
    assert Process.objects.get().boot_id == identity.boot_id
