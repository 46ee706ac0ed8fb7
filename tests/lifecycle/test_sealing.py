"""Final rows of the audit are sealed in the background, once, and cannot be changed afterwards."""

import pytest
from django.db import DatabaseError, IntegrityError

from mcp_app import databases
from mcp_app.lifecycle.audit import sealing
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import purging, rounds
from mcp_app.models import AuditDay, Cancellation
from mcp_app.states import Status
from tests.lifecycle.tampering import TABLE, TODAY, YESTERDAY, attempts, execute, findings, seal, seal_on, settle_on
from tests.support import rows
from tests.support.racing import race


def places():
    return list(Cancellation.objects.order_by("sealed_on", "seal_number").values_list("sealed_on", "seal_number"))


def test_supervision_seals_only_final_rows(worker):
    row = rows.stopping(worker)
    rows.cancel(row)
    rounds.supervise()
    accepted, duplicate = rows.audited(row)
    assert (accepted.sealed_on, duplicate.seal_number) == (None, 1)

    transitions.finish(row.pk, Status.CANCELLED, worker=worker)
    rounds.supervise()
    assert rows.audited(row)[0].seal_number == 2
    assert AuditDay.objects.get().count == 2
    assert findings() == []


def test_each_day_has_a_chain_that_begins_where_the_last_one_ends(monkeypatch):
    for day in (YESTERDAY, TODAY):
        attempts(2)
        seal(monkeypatch, day)
    assert places() == [(YESTERDAY, 1), (YESTERDAY, 2), (TODAY, 1), (TODAY, 2)]
    yesterday, today = AuditDay.objects.all()
    assert today.origin == yesterday.head == Cancellation.objects.get(sealed_on=YESTERDAY, seal_number=2).seal


@pytest.mark.fault("D6")
def test_a_clock_that_is_set_back_does_not_reopen_an_earlier_day(monkeypatch):
    for day in (TODAY, YESTERDAY):
        attempts(1)
        seal(monkeypatch, day)
    assert places() == [(TODAY, 1), (TODAY, 2)]
    assert findings() == []


def test_rows_that_were_settled_while_the_clock_was_ahead_are_sealed_when_their_day_comes(monkeypatch):
    past = YESTERDAY.replace(year=2000)
    attempts(1)
    settle_on(past)
    attempts(1)
    seal_on(monkeypatch, past)
    assert set(places()) == {(past, 1), (None, None)}
    monkeypatch.undo()
    sealing.seal_final_attempts()
    assert Cancellation.objects.filter(sealed_on__gt=past, seal_number=1).count() == 1
    assert findings() == []


def test_a_closed_day_is_logged(monkeypatch, caplog):
    caplog.set_level("INFO", logger=sealing.logger.name)
    for day in (YESTERDAY, TODAY):
        attempts(1)
        seal(monkeypatch, day)
    head = Cancellation.objects.get(sealed_on=YESTERDAY).seal
    [message] = caplog.messages
    assert all(fact in message for fact in ("sealed", f"{YESTERDAY}:1:{head}"))


def test_many_are_sealed_in_batches(monkeypatch):
    monkeypatch.setattr(sealing, "BATCH", 3)
    attempts(8)
    seal(monkeypatch, TODAY)
    assert places() == [(TODAY, number) for number in range(1, 9)]
    assert findings() == []


def test_concurrent_processes_seal_each_row_once():
    for _ in range(3):
        attempts(6)
        race(*[sealing.seal_final_attempts] * 4)
    assert [number for _, number in places()] == list(range(1, 19))
    assert findings() == []


@pytest.mark.usefixtures("snapshots")
def test_each_row_is_sealed_once_if_each_transaction_sees_the_rows_of_one_moment():
    test_concurrent_processes_seal_each_row_once()


def test_an_attempt_that_is_added_during_sealing_is_sealed_next():
    race(lambda: attempts(10), *[sealing.seal_final_attempts] * 3)
    sealing.seal_final_attempts()
    assert [number for _, number in places()] == list(range(1, 11))
    assert findings() == []


@pytest.mark.fault("G9")
@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE {TABLE} SET reason = 'rewritten'",
        f"UPDATE {TABLE} SET seal_number = NULL, sealed_on = NULL, seal = ''",
        f"DELETE FROM {TABLE}",
        f"TRUNCATE {TABLE}",
    ],
)
def test_the_database_rejects_changes_and_deletions_of_sealed_rows(monkeypatch, statement):
    if statement.startswith("TRUNCATE") and databases.connection().vendor == "mysql":
        pytest.skip("no trigger of MySQL fires for TRUNCATE")
    attempts(2)
    seal(monkeypatch, TODAY)
    before = list(Cancellation.objects.values())
    # SQLite knows no TRUNCATE.
    refusal = DatabaseError if statement.startswith("TRUNCATE") else IntegrityError
    with pytest.raises(refusal), databases.atomic():
        execute(statement)
    assert list(Cancellation.objects.values()) == before


def test_the_database_takes_the_end_of_an_attempt_that_was_accepted(worker):
    row = rows.stopping(worker)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert rows.audited(row)[0].outcome == "too_late"
    assert findings() == []


def test_verification_during_writes_sealing_and_purging_has_no_findings(configure):
    configure(REQUEST_RETENTION_DAYS=1, AUDIT_RETENTION_DAYS=1)

    def verify():
        return [finding for _ in range(5) for finding in findings()]

    assert race(lambda: attempts(20), *[sealing.seal_final_attempts] * 2, verify, purging.purge_audit)[3] == []
    assert findings() == []
