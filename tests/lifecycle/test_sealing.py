"""What is final in the audit is sealed in the background, once, and from then on the database keeps it."""

import pytest
from django.db import DatabaseError, IntegrityError

from mcp_app import databases
from mcp_app.lifecycle import purging, sealing, supervision, transitions
from mcp_app.models import AuditDay, Cancellation
from mcp_app.states import Status
from tests.lifecycle import rows
from tests.lifecycle.racing import race
from tests.lifecycle.tampering import TABLE, TODAY, YESTERDAY, attempts, execute, findings, seal


def places():
    return list(Cancellation.objects.order_by("sealed_on", "seal_number").values_list("sealed_on", "seal_number"))


def test_supervision_seals_what_is_final_and_nothing_else(worker):
    row = rows.stopping(worker)
    rows.cancel(row)
    supervision.supervise()
    accepted, duplicate = rows.audited(row)
    assert (accepted.sealed_on, duplicate.seal_number) == (None, 1)

    transitions.finish(row.pk, Status.CANCELLED, worker=worker)
    supervision.supervise()
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
def test_a_clock_that_goes_back_opens_no_day_of_the_past(monkeypatch):
    for day in (TODAY, YESTERDAY):
        attempts(1)
        seal(monkeypatch, day)
    assert places() == [(TODAY, 1), (TODAY, 2)]
    assert findings() == []


def test_a_closed_day_is_told_in_the_log(monkeypatch, caplog):
    caplog.set_level("INFO", logger=sealing.logger.name)
    for day in (YESTERDAY, TODAY):
        attempts(1)
        seal(monkeypatch, day)
    head = Cancellation.objects.get(sealed_on=YESTERDAY).seal
    assert caplog.messages == [f"the audit of {YESTERDAY} is closed, its head is {YESTERDAY}:1:{head}"]


def test_many_are_sealed_in_batches(monkeypatch):
    monkeypatch.setattr(sealing, "BATCH", 3)
    attempts(8)
    seal(monkeypatch, TODAY)
    assert places() == [(TODAY, number) for number in range(1, 9)]
    assert findings() == []


def test_processes_that_seal_at_once_seal_each_row_once():
    for _ in range(3):
        attempts(6)
        race(*[sealing.seal_final_attempts] * 4)
    assert [number for _, number in places()] == list(range(1, 19))
    assert findings() == []


def test_who_cancels_while_it_is_sealed_is_sealed_next():
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
def test_the_database_refuses_to_change_or_delete_what_is_sealed(monkeypatch, statement):
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


def test_verifying_while_it_is_written_sealed_and_purged_raises_no_alarm(configure):
    configure(REQUEST_RETENTION_DAYS=1, AUDIT_RETENTION_DAYS=1)

    def verify():
        return [finding for _ in range(5) for finding in findings()]

    assert race(lambda: attempts(20), *[sealing.seal_final_attempts] * 2, verify, purging.purge_audit)[3] == []
    assert findings() == []
