"""Many processes share the rounds, and a round does not delay heartbeats."""

from datetime import timedelta
from uuid import uuid4

from django.db import OperationalError
from django.db.models import F

from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Process, Request
from mcp_app.states import ProcessRole, Status
from tests.lifecycle.test_supervision import alive, later
from tests.support import rows


def overdue():
    row = rows.queued()
    later(settings.MAX_QUEUE_SECONDS + 1)
    return row


def is_asked_to_stop(row):
    return rows.fresh(row).cancel_requested_at is not None


def test_only_one_of_many_processes_carries_out_a_round():
    first, second = alive(), alive(ProcessRole.SERVER)
    assert rounds.take_turn(first)
    row = overdue()
    assert rounds.take_turn(second)
    assert not is_asked_to_stop(row)
    Process.objects.update(supervised_at=F("supervised_at") - timedelta(seconds=settings.SUPERVISION_INTERVAL))
    assert rounds.take_turn(second)
    assert is_asked_to_stop(row)


def test_a_round_that_began_before_the_clock_was_set_back_does_not_block_the_next():
    assert rounds.take_turn(alive())
    row = overdue()
    Process.objects.update(supervised_at=F("supervised_at") + timedelta(hours=1))
    assert rounds.take_turn(alive())
    assert is_asked_to_stop(row)


def test_a_silent_process_does_not_keep_others_from_supervision(monkeypatch):
    monkeypatch.setattr(type(processes._own), "can_detect", False)
    assert rounds.take_turn(alive())
    row = overdue()
    monkeypatch.undo()
    assert rounds.take_turn(alive())
    assert is_asked_to_stop(row)


def test_a_step_stops_before_heartbeats_are_late_and_continues_in_the_next_round(configure):
    lost = [rows.running(uuid4()) for _ in range(3)]
    configure(LOST_AFTER=0.0)
    for left in (2, 1, 0):
        rounds.lose_requests_of_silent_workers()
        assert Request.objects.filter(pk__in=[row.pk for row in lost], status=Status.RUNNING).count() == left


def test_heartbeats_are_written_between_the_steps_of_a_round(caplog):
    beats = []

    def beat():
        beats.append(len(beats))
        raise OperationalError("the database is away")

    assert rounds.supervise(beat)
    assert len(beats) > 10
