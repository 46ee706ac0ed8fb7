"""Delete requests and days of the audit whose retention period has ended.

Each batch is a short transaction, so that calls go on during a purge, and an interrupted purge can
be resumed.

A request is kept while it is open, and while a client can still get its task. A day of the audit is
kept while it has an attempt on a request that is kept. The `AuditDay` row of a purged day stays,
with the head of its chain, so that `verification` can still check the other days.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.apps import apps
from django.db.models import Exists, OuterRef, QuerySet

from mcp_app.conf import settings
from mcp_app.lifecycle.audit import sealing, signatures
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.models import AuditDay, Cancellation, Request, RequestEvent
from mcp_app.models.utc_date_time import Now
from mcp_app.states import TERMINAL

REQUESTS: Final = 100
EVENTS: Final = 2_000
ATTEMPTS: Final = 1_000
"""The most rows that one transaction deletes."""
DAY: Final = 86_400.0


def purge_requests() -> int:
    """Delete the requests that ended more than `REQUEST_RETENTION_DAYS` ago, with their events.

    Return how many requests were deleted.
    """
    if settings.REQUEST_RETENTION_DAYS is None:
        return 0
    total = 0
    while batch := list(_old_requests(settings.REQUEST_RETENTION_DAYS).values_list("pk", flat=True)[:REQUESTS]):
        while _delete_events(batch):
            pass
        total += _delete_requests(batch)
    return total


def purge_audit() -> int:
    """Delete attempts that were sealed over `AUDIT_RETENTION_DAYS` days ago. Return how many."""
    if settings.AUDIT_RETENTION_DAYS is None:
        return 0
    while _mark_purged_day(settings.AUDIT_RETENTION_DAYS):
        pass
    total = 0
    while count := _delete_attempts():
        total += count
    return total


def _old_requests(days: int) -> QuerySet[Request]:
    """Return the requests to purge, in the order of submission, which has an index.

    A terminal status is final, so these requests stay purgeable.
    """
    limit = from_now(-days * DAY)
    ended = Request.objects.filter(status__in=TERMINAL, submitted_at__lt=limit, finished_at__lt=limit)
    return ended.exclude(task_expires_at__gte=from_now(0)).order_by("submitted_at")


@transactional
def _delete_events(requests: Sequence[UUID]) -> int:
    events = RequestEvent.objects.filter(request__in=requests).values_list("pk", flat=True)[:EVENTS]
    return RequestEvent.objects.filter(pk__in=list(events)).delete()[0]


@transactional
def _delete_requests(requests: Sequence[UUID]) -> int:
    if apps.is_installed("django_celery_results"):
        stored = apps.get_model("django_celery_results", "TaskResult")._default_manager
        stored.filter(task_id__in=[str(pk) for pk in requests]).delete()
    return Request.objects.filter(pk__in=requests).delete()[1].get("mcp_app.Request", 0)


@transactional
def _mark_purged_day(days: int) -> bool:
    """Mark the oldest day that may be purged as purged. Return false if there is none."""
    sealing.lock()
    attempts = Cancellation.objects.filter(sealed_on=OuterRef("day"))
    is_needed = Exists(attempts.filter(Exists(Request.objects.filter(pk=OuterRef("request_id")))))
    limit = (clock.read() - timedelta(days=days)).date()
    day = AuditDay.objects.filter(purged_at__isnull=True, day__lt=limit).exclude(is_needed).order_by("day").first()
    if day is None:
        return False
    AuditDay.objects.filter(pk=day.pk).update(purged_at=Now())
    day.refresh_from_db()
    day.signature = signatures.sign_day(day)
    day.save(update_fields=["signature"])
    return True


@transactional
def _delete_attempts() -> int:
    purged = AuditDay.objects.filter(purged_at__isnull=False).values("day")
    attempts = Cancellation.objects.filter(sealed_on__in=purged).order_by("sealed_on", "seal_number")
    return Cancellation.objects.filter(pk__in=list(attempts.values_list("pk", flat=True)[:ATTEMPTS])).purge()
