"""D2: while the database is away no heartbeat can be written, and no process is declared dead for that reason."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from mcp_app import databases
from mcp_app.lifecycle.database import retries
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Process, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import ProcessRole, Status
from tests.support import rows
from tests.support.failing_database import locked

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

PATIENCE = 10.0


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Identity:
    monkeypatch.setattr(retries, "FIRST_DELAY", 0.0001)
    return Identity(ProcessRole.SERVER)


@pytest.fixture
def worker() -> UUID:
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity.boot_id


def fall_silent(worker: UUID) -> None:
    Process.objects.filter(boot_id=worker).update(heartbeat_at=from_now(-60))


def fail_to_beat(identity: Identity) -> None:
    with locked(), pytest.raises(OperationalError):
        processes.beat(identity)


def test_D2_who_cannot_be_heard_calls_nobody_silent(worker: UUID, supervisor: Identity) -> None:
    row = rows.running(worker)
    fall_silent(worker)
    fail_to_beat(supervisor)
    rounds.supervise()
    assert rows.fresh(row).status == Status.RUNNING


def test_D2_who_said_that_it_stops_is_believed_all_the_same(worker: UUID, supervisor: Identity) -> None:
    row = rows.running(worker)
    Process.objects.filter(boot_id=worker).update(stopped_at=Now())
    fail_to_beat(supervisor)
    rounds.supervise()
    assert rows.fresh(row).status == Status.LOST


def test_D2_a_client_whose_server_cannot_be_heard_is_not_taken_for_gone(worker: UUID, supervisor: Identity) -> None:
    server = Identity(ProcessRole.SERVER)
    processes.beat(server)
    row = rows.running(worker, server=server.boot_id)
    Request.objects.update(queued_at=from_now(-60))
    fall_silent(server.boot_id)
    fail_to_beat(supervisor)
    rounds.supervise()
    assert rows.fresh(row).cancel_requested_at is None


def test_D2_who_stays_silent_when_others_could_speak_again_is_lost(
    worker: UUID, supervisor: Identity, configure: Callable[..., None]
) -> None:
    configure(LOST_AFTER=0.2)
    row = rows.running(worker)
    fall_silent(worker)
    fail_to_beat(supervisor)
    until = time.monotonic() + PATIENCE
    while rows.fresh(row).status != Status.LOST:
        assert time.monotonic() < until
        processes.beat(supervisor)
        rounds.supervise()


@pytest.mark.fault("D2")
def test_D2_who_spoke_before_the_database_held_its_breath_is_not_taken_for_dead(
    worker: UUID, supervisor: Identity, configure: Callable[..., None]
) -> None:
    configure(LOST_AFTER=0.4)
    row = rows.running(worker)
    processes.beat(supervisor)
    processes.beat(Identity(ProcessRole.WORKER, boot_id=worker))

    def hold_breath(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if Request._meta.db_table in sql:
            time.sleep(1.0)
        return execute(sql, params, many, context)

    with databases.connection().execute_wrapper(hold_breath):
        rounds.lose_requests_of_silent_workers()
    assert rows.fresh(row).status == Status.RUNNING


@pytest.mark.fault("D2")
def test_D2_after_a_step_that_took_too_long_nobody_is_called_silent(
    worker: UUID, supervisor: Identity, configure: Callable[..., None]
) -> None:
    configure(LOST_AFTER=0.4)
    row = rows.running(worker)
    processes.beat(supervisor)
    with processes.listening():
        time.sleep(1.0)
    rounds.supervise()
    assert rows.fresh(row).status == Status.RUNNING
