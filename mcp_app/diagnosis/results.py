"""Check Celery's result backend, which has the results of calls that failed or were stopped."""

from collections.abc import Iterator
from typing import Final

from celery import current_app
from django.apps import apps
from django.utils import timezone

from mcp_app.diagnosis.examination import Finding, SharedFacts, ok, warning
from mcp_app.models.utc_date_time import Now

NAME: Final = "results"
SET: Final = 'CELERY_RESULT_BACKEND = "django-db".'


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check whether the admin can show Celery's results, and when the newest was stored."""
    backend = str(current_app.conf.result_backend or "none")
    if not apps.is_installed("django_celery_results"):
        yield ok(NAME, "django_celery_results is not installed: the admin does not show Celery's own view of a call.")
        return
    if not backend.startswith(("django-db", "django_celery_results")):
        kind = backend.partition(":")[0]
        yield warning(NAME, f"Celery stores results in {kind}, which the admin does not read.", SET)
        return
    rows = apps.get_model("django_celery_results", "TaskResult").objects.order_by("-date_done").annotate(now=Now())
    newest = rows.values_list("date_done", "now")[:1]
    for done_at, now in newest:
        aware = timezone.make_aware(done_at) if timezone.is_naive(done_at) else done_at  # naive if `USE_TZ` is off
        yield ok(NAME, f"django-db: the newest was stored {max(0.0, (now - aware).total_seconds()):.0f} s ago.")
    if not newest:
        yield ok(NAME, "django-db: none was stored yet.")
