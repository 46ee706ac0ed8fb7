"""D: a cancellation that the database rejects is not stored, not even in part, and is stored when it is repeated."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.core.management import CommandError, call_command
from django.db import DatabaseError, IntegrityError
from django.test import Client

from mcp_app import databases
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.database import retries
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.sessions import call_connections
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request
from mcp_app.states import Cause, Outcome, ProcessRole
from mcp_app.transport.process import cancellations
from mcp_app.transport.process.cancellations import CancellationQueue
from mcp_app.transport.process.threads import Threads
from tests.support import rows
from tests.support.failing_database import REFUSAL, audit_refused, locked

pytestmark = [pytest.mark.usefixtures("_impatient"), pytest.mark.django_db(transaction=True, databases="__all__")]

BUSY = "1 not cancelled: the database is busy or cannot be reached. Try again in a moment."


@pytest.fixture
def worker() -> UUID:
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity.boot_id


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_DELAY", 0.0001)
    monkeypatch.setattr(cancellations, "RETRY_DELAYS", (0.02,) * 50)


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("grace"))
    return client


def assert_untouched(row: Request) -> None:
    """Assert that the row, its events and the audit have no trace of an attempt."""
    after = rows.fresh(row)
    assert (after.cancel_requested_at, after.event_seq) == (None, row.event_seq)
    assert rows.outcomes(row) == []


def press(operator: Client, row: Request) -> str:
    """Press the admin's cancel button, and return the message that its user sees."""
    response = operator.post(f"/admin/mcp_app/request/{row.pk}/cancel/", {})
    assert response.status_code == 302
    return str(list(get_messages(response.wsgi_request))[-1])


def test_D1_the_admins_button_says_that_nothing_was_cancelled_and_can_be_pressed_again(operator, worker):
    row = rows.running(worker)
    with locked():
        assert press(operator, row) == BUSY
    assert_untouched(row)
    assert press(operator, row) == "1 cancelled"


def test_D1_the_command_line_says_that_nothing_was_cancelled_and_can_be_repeated(worker):
    row = rows.running(worker)
    with locked(), pytest.raises(CommandError, match="not cancelled, try again: database is locked"):
        call_command("mcp", "cancel", str(row.pk))
    assert_untouched(row)
    call_command("mcp", "cancel", str(row.pk))
    assert rows.outcomes(row) == [Outcome.ACCEPTED]


def overdue(worker: UUID) -> Request:
    row = rows.queued()
    Request.objects.filter(pk=row.pk).update(deadline_at="2001-01-01T00:00:00Z")
    return row


def abandoned(worker: UUID) -> Request:
    row = rows.running(worker, session=UUID(int=1))
    Request.objects.filter(pk=row.pk).update(left_at="2001-01-01T00:00:00Z")
    return row


def orphaned(worker: UUID) -> Request:
    row = rows.running(worker, server=UUID(int=2))
    Request.objects.filter(pk=row.pk).update(queued_at="2001-01-01T00:00:00Z")
    return row


SUPERVISED = pytest.mark.parametrize(
    ("situation", "step", "cause"),
    [
        (overdue, rounds.cancel_overdue_requests, Cause.DEADLINE),
        (abandoned, call_connections.cancel_abandoned_calls, Cause.ABANDONED),
        (orphaned, rounds.cancel_requests_of_silent_servers, Cause.LOST_SERVER),
    ],
)


@pytest.mark.fault("D1")
@SUPERVISED
def test_D1_what_supervision_could_not_cancel_it_cancels_in_its_next_round(worker, situation, step, cause):
    row = situation(worker)
    with locked():
        rounds.supervise()
    assert_untouched(row)
    rounds.supervise()
    assert rows.fresh(row).cancel_cause == cause


@pytest.mark.fault("D7")
def test_D7_a_cancellation_without_its_audit_is_not_stored_and_can_be_repeated(worker):
    row = rows.running(worker)
    with audit_refused(of=row), pytest.raises(IntegrityError, match=REFUSAL):
        rows.cancel(row)
    assert_untouched(row)
    assert rows.cancel(row) == Outcome.ACCEPTED


def test_D7_the_admins_button_says_that_nothing_was_cancelled(operator, worker):
    row = rows.running(worker)
    with audit_refused(of=row):
        assert press(operator, row) == BUSY
    assert_untouched(row)


@pytest.mark.fault("D7")
@SUPERVISED
def test_D7_what_cannot_be_audited_keeps_supervision_from_no_other(worker, situation, step, cause):
    refused, other = situation(worker), situation(worker)
    with audit_refused(of=refused):
        step()
    assert_untouched(refused)
    assert rows.fresh(other).cancel_cause == cause
    step()
    assert rows.fresh(refused).cancel_cause == cause


def stored(asks: Sequence[CancellationRequest], *, once) -> list[bool]:
    """Put cancellations into one `CancellationQueue` at the same time, and return its results.

    `once` is called when the first of them has finished.
    """

    async def scenario() -> list[bool]:
        threads = Threads("test", 1)
        door = CancellationQueue(threads)
        try:
            asked = [asyncio.ensure_future(door.cancel(ask)) for ask in asks]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            await threads.run(once)
            return await asyncio.gather(*asked)
        finally:
            await threads.close()

    return asyncio.run(scenario())


@pytest.mark.fault("D7")
def test_D7_a_disconnect_is_insisted_on_and_keeps_no_other_from_being_stored(worker):
    refused, other = rows.running(worker), rows.running(worker)
    asks = [CancellationRequest(row.pk, Cause.DISCONNECT, SYSTEM) for row in (refused, other)]
    found = []

    def once() -> None:
        found.extend(rows.fresh(row).cancel_cause for row in (refused, other))
        with databases.connection().cursor() as cursor:
            cursor.execute("DROP TRIGGER refuse")

    with audit_refused(of=refused):
        assert stored(asks, once=once) == [True, True]
    assert found == ["", "disconnect"]
    assert [rows.outcomes(row) for row in (refused, other)] == [[Outcome.ACCEPTED]] * 2


def test_D7_what_can_never_be_stored_is_said_not_to_be(worker, monkeypatch):
    monkeypatch.setattr(cancellations, "RETRY_DELAYS", (0.0, 0.0))
    row = rows.running(worker)
    with audit_refused(of=row):
        assert stored([CancellationRequest(row.pk, Cause.DISCONNECT, SYSTEM)], once=lambda: None) == [False]
    with pytest.raises(DatabaseError), audit_refused(of=row):
        cancellation.cancel(row.pk, cause=Cause.CLIENT, actor=SYSTEM)
    assert_untouched(row)
