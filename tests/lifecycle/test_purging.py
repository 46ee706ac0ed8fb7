"""D5: old requests are purged, open ones never, and the audit never before its requests."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db.models import F

from mcp_app import databases
from mcp_app.lifecycle.audit import sealing
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.supervision import purging
from mcp_app.models import AuditDay, Cancellation, Request, RequestEvent
from mcp_app.states import Cause, EventKind, Status
from tests.lifecycle.tampering import TODAY, YESTERDAY, attempts, findings, is_about, kinds, seal
from tests.support import rows
from tests.support.racing import race

TIMES = ("submitted_at", "queued_at", "claimed_at", "finished_at", "cancel_requested_at", "task_expires_at")


def age(days, *requests):
    """Make these requests, or all, older."""
    found = Request.objects.filter(pk__in=[row.pk for row in requests]) if requests else Request.objects.all()
    for name in TIMES:
        found.filter(**{f"{name}__isnull": False}).update(**{name: F(name) - timedelta(days=days)})


def ended(worker, **changes):
    row = rows.running(worker, **changes)
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    return row


def test_an_old_request_is_purged_with_all_its_rows(worker, configure):
    configure(REQUEST_RETENTION_DAYS=30)
    old, young = ended(worker), ended(worker)
    results = apps.get_model("django_celery_results", "TaskResult").objects
    for row in (old, young):
        results.create(task_id=str(row.pk))
    age(31, old)
    age(29, young)
    assert purging.purge_requests() == 1
    assert list(Request.objects.all()) == [young]
    assert set(RequestEvent.objects.values_list("request", flat=True)) == {young.pk}
    assert [each.task_id for each in results.all()] == [str(young.pk)]


@pytest.mark.fault("D5")
def test_open_requests_are_kept_whatever_their_age(worker):
    kept = [rows.queued(), rows.running(worker), rows.stopping(worker), rows.asking(worker)]
    age(1000)
    assert purging.purge_requests() == 0
    assert Request.objects.count() == len(kept)


def test_an_old_request_that_ended_recently_is_kept(worker):
    row = rows.running(worker)
    age(1000)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert purging.purge_requests() == 0


def test_a_request_whose_task_has_not_expired_is_kept(worker):
    row = ended(worker)
    age(1000)
    Request.objects.filter(pk=row.pk).update(task_expires_at=F("finished_at") + timedelta(days=2000))
    assert purging.purge_requests() == 0
    Request.objects.filter(pk=row.pk).update(task_expires_at=F("finished_at"))
    assert purging.purge_requests() == 1


def test_many_requests_are_purged_in_batches(worker, monkeypatch):
    monkeypatch.setattr(purging, "REQUESTS", 2)
    monkeypatch.setattr(purging, "EVENTS", 3)
    for _ in range(5):
        row = rows.running(worker)
        transitions.record(row.pk, [Event(EventKind.LOG, {})] * 4)
        transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    age(1000)
    assert purging.purge_requests() == 5
    assert not RequestEvent.objects.exists()


def test_two_concurrent_purges_delete_each_row_once(worker):
    for _ in range(6):
        ended(worker)
    age(1000)
    assert sum(race(purging.purge_requests, purging.purge_requests)) == 6


def test_nothing_is_purged_without_retention_settings(worker, configure, monkeypatch):
    configure(REQUEST_RETENTION_DAYS=None, AUDIT_RETENTION_DAYS=None)
    ended(worker)
    attempts(2)
    seal(monkeypatch, YESTERDAY.replace(year=2000))
    age(10_000)
    assert (purging.purge_requests(), purging.purge_audit()) == (0, 0)


@pytest.fixture
def two_days(monkeypatch):
    """Attempts of an old day, and of the day after."""
    past = [YESTERDAY.replace(year=2000), TODAY.replace(year=2000)]
    for day in past:
        attempts(4)
        seal(monkeypatch, day)
    monkeypatch.undo()
    return past


@pytest.mark.fault("D5")
def test_the_audit_stays_until_its_requests_are_gone(two_days):
    assert purging.purge_audit() == 0
    age(10_000)
    assert purging.purge_requests() == 4
    assert purging.purge_audit() == 8
    assert not Cancellation.objects.exists()


@pytest.mark.fault("D5")
def test_one_request_that_is_kept_keeps_its_day_of_the_audit(two_days, worker):
    kept = Cancellation.objects.filter(sealed_on=two_days[1]).first()
    age(10_000, *Request.objects.exclude(pk=kept.request_id))
    purging.purge_requests()
    assert purging.purge_audit() == 4
    assert {row.sealed_on for row in Cancellation.objects.all()} == {two_days[1]}
    assert findings() == []


def test_after_a_purge_the_remaining_days_still_verify(two_days, worker):
    age(10_000)
    purging.purge_requests()
    row = rows.queued()
    rows.cancel(row, Cause.ADMIN)
    sealing.seal_final_attempts()
    purging.purge_audit()
    assert [(day.day, day.purged_at is not None) for day in AuditDay.objects.all()[:2]] == [(d, True) for d in two_days]
    assert Cancellation.objects.count() == 1
    assert findings() == []


def test_a_half_purged_day_is_no_finding_and_is_purged_next_time(two_days, monkeypatch):
    age(10_000)
    purging.purge_requests()
    monkeypatch.setattr(purging, "ATTEMPTS", 3)
    delete, deleted = purging._delete_attempts, []

    def interrupted():
        if deleted:
            raise KeyboardInterrupt
        deleted.append(delete())
        return deleted[0]

    monkeypatch.setattr(purging, "_delete_attempts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        purging.purge_audit()
    assert Cancellation.objects.count() == 5
    assert findings() == []
    monkeypatch.setattr(purging, "_delete_attempts", delete)
    assert purging.purge_audit() == 5


def test_a_day_that_was_marked_as_purged_without_this_app_is_found(two_days):
    with databases.atomic():
        AuditDay.objects.filter(day=two_days[0]).update(purged_at=F("day"))
        Cancellation.objects.filter(sealed_on=two_days[0]).purge()
    assert any(is_about(finding, "changed", "row", two_days[0], "key") for finding in findings())
    assert "deleted" in kinds(), "its requests are still there"
