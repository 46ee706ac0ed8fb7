"""Many processes, one round at a time, which keeps no heart from beating."""

from datetime import timedelta
from uuid import uuid4

from django.db import OperationalError
from django.db.models import F

from mcp_app.conf import settings
from mcp_app.lifecycle import processes, supervision
from mcp_app.models import Process, Request
from mcp_app.states import ProcessRole, Status
from tests.lifecycle import rows
from tests.lifecycle.test_supervision import alive, later


def overdue():
    row = rows.queued()
    later(settings.MAX_QUEUE_SECONDS + 1)
    return row


def is_asked_to_stop(row):
    return rows.fresh(row).cancel_requested_at is not None


def test_of_many_processes_one_goes_round_at_a_time():
    first, second = alive(), alive(ProcessRole.SERVER)
    assert supervision.take_turn(first)
    row = overdue()
    assert supervision.take_turn(second)
    assert not is_asked_to_stop(row)
    Process.objects.update(supervised_at=F("supervised_at") - timedelta(seconds=settings.SUPERVISION_INTERVAL))
    assert supervision.take_turn(second)
    assert is_asked_to_stop(row)


def test_a_round_that_began_before_the_clock_was_set_back_keeps_nobody_from_the_next():
    assert supervision.take_turn(alive())
    row = overdue()
    Process.objects.update(supervised_at=F("supervised_at") + timedelta(hours=1))
    assert supervision.take_turn(alive())
    assert is_asked_to_stop(row)


def test_who_is_not_heard_keeps_nobody_from_going_round(monkeypatch):
    monkeypatch.setattr(type(processes._voice), "is_heard", False)
    assert supervision.take_turn(alive())
    row = overdue()
    monkeypatch.undo()
    assert supervision.take_turn(alive())
    assert is_asked_to_stop(row)


def test_a_step_takes_no_longer_than_a_heart_may_wait_and_goes_on_in_the_next_round(configure):
    lost = [rows.running(uuid4()) for _ in range(3)]
    configure(LOST_AFTER=0.0)
    for left in (2, 1, 0):
        supervision.lose_requests_of_silent_workers()
        assert Request.objects.filter(pk__in=[row.pk for row in lost], status=Status.RUNNING).count() == left


def test_a_heart_beats_between_the_steps_of_a_round(caplog):
    beats = []

    def beat():
        beats.append(len(beats))
        raise OperationalError("the database is away")

    assert supervision.supervise(beat)
    assert len(beats) > 10
