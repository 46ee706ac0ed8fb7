"""If no worker consumes a queue, the log names the remedy, and with `DEBUG` the error does too."""

import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import observation
from mcp_app.lifecycle.supervision import rounds, unconsumed_queues
from mcp_app.models import Process, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import ProcessRole, Status
from tests.support import rows

COMMAND = "`python manage.py mcp worker`"
pytestmark = [pytest.mark.usefixtures("_unreported"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def _unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unconsumed_queues, "_reported_at", {})


def waiting(queue: str, seconds: float) -> Request:
    row = rows.queued(queue=queue)
    Request.objects.filter(pk=row.pk).update(queued_at=F("queued_at") - timedelta(seconds=seconds))
    return row


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records if record.name == unconsumed_queues.logger.name]
    caplog.clear()
    return said


def test_a_queue_that_no_worker_consumes_is_reported_once_with_the_command(caplog: pytest.LogCaptureFixture) -> None:
    waiting("deaf", 5)
    waiting("young", 1)
    with caplog.at_level(logging.ERROR):
        rounds.supervise()
        rounds.supervise()
    [said] = reported(caplog)
    assert all(fact in said for fact in ('"deaf"', COMMAND))
    assert re.findall(r"\d+", said) == ["1"]


def test_only_live_workers_that_consume_the_queue_count(caplog: pytest.LogCaptureFixture) -> None:
    waiting("mail", 5)
    busy, stopped, silent = (Identity(ProcessRole.WORKER) for _ in range(3))
    for identity in (busy, stopped, silent):
        processes.beat(identity, ["mail"] if identity is not busy else ["other"])
    processes.stop(stopped)
    Process.objects.filter(boot_id=silent.boot_id).update(heartbeat_at=Now() - timedelta(hours=1))
    rounds.check_queues()
    assert len(reported(caplog)) == 1
    processes.beat(busy, ["other", "mail"])
    rounds.check_queues()
    assert reported(caplog) == []


@pytest.mark.parametrize("debug", [True, False])
def test_under_debug_the_clients_error_names_the_command_that_starts_a_worker(settings: Any, debug: bool) -> None:
    settings.DEBUG = debug
    old, young = waiting("deaf", 16), waiting("deaf", 5)
    rounds.check_queues()
    old.refresh_from_db()
    young.refresh_from_db()
    assert (old.status, young.status) == (Status.FAILED if debug else Status.QUEUED, Status.QUEUED)
    if debug:
        [content] = observation.final_result(old)["content"]
        assert all(fact in content["text"] for fact in ('"deaf"', COMMAND))
