"""Requests that no worker takes are counted, and raise an alarm from time to time."""

import logging
import time
from datetime import timedelta

import pytest
from django.db.models import F

from mcp_app.lifecycle.liveness import queues
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request
from tests.support import rows

pytestmark = [pytest.mark.usefixtures("_calm"), pytest.mark.fault("C6")]


@pytest.fixture
def _calm(configure, monkeypatch):
    configure(QUEUE_ALARM_AFTER=60.0)
    monkeypatch.setattr(queues, "_alarmed_at", {})


def wait(row, seconds):
    Request.objects.filter(pk=row.pk).update(queued_at=F("queued_at") - timedelta(seconds=seconds))


def alarms(caplog, level=logging.ERROR):
    return [record.getMessage() for record in caplog.records if record.levelno == level and "queue" in record.msg]


def test_C6_the_age_of_each_queue_is_that_of_its_oldest_request(worker):
    began_at = time.monotonic()
    for queue, seconds in (("a", 5), ("a", 50), ("b", 90)):
        wait(rows.queued(queue=queue), seconds)
    wait(rows.running(worker, queue="a"), 500)
    wait(rows.asking(worker, queue="c"), 500)
    ages = queues.queue_ages()
    assert [(age.queue, age.waiting) for age in ages] == [("b", 1), ("a", 2)]
    meanwhile = time.monotonic() - began_at
    for age, seconds in zip(ages, (90, 50), strict=True):
        assert seconds - 0.01 <= age.oldest_seconds <= seconds + meanwhile + 0.01


def test_C6_supervision_raises_the_alarm_once_in_a_while_and_says_when_it_is_over(worker, caplog, monkeypatch):
    row = rows.queued(queue="deaf")
    wait(row, 59)
    wait(rows.queued(queue="quick"), 5)
    with caplog.at_level(logging.WARNING, "mcp_app.lifecycle.liveness.queues"):
        rounds.supervise()
        assert alarms(caplog) == []
        wait(row, 10)
        rounds.supervise()
        rounds.supervise()
        [alarm] = alarms(caplog)
        assert all(fact in alarm for fact in ("deaf", "waiting: 1"))
        queues._alarmed_at["deaf"] -= 61
        rounds.supervise()
        assert len(alarms(caplog)) == 2
        assert transitions.claim(row.pk, worker=worker, pid=4711)
        rounds.supervise()
        rounds.supervise()
        [over] = alarms(caplog, logging.WARNING)
        assert all(fact in over for fact in ("deaf", "no request"))


def test_C6_no_alarm_if_it_is_switched_off(configure, caplog):
    configure(QUEUE_ALARM_AFTER=None)
    wait(rows.queued(), 500)
    rounds.check_queues()
    assert alarms(caplog) == []
