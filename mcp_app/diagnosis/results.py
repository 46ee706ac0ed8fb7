"""Celery's result backend: the view of a call that Celery itself has, beside the row."""

from collections.abc import Iterator
from typing import Final

from celery import current_app
from django.apps import apps
from django.db.models.functions import Now

from mcp_app.diagnosis.examination import Seen
from mcp_app.diagnosis.findings import Finding, ok, warning

NAME: Final = "results"
SET: Final = 'CELERY_RESULT_BACKEND = "django-db", and django_celery_results in INSTALLED_APPS.'


def look(seen: Seen) -> Iterator[Finding]:
    """Whether it is the one whose rows the admin shows, and when the newest of these was written."""
    backend = str(current_app.conf.result_backend or "none")
    if not backend.startswith(("django-db", "django_celery_results")):
        kind = backend.partition(":")[0]
        yield warning(NAME, f"Celery keeps results in {kind}, where the admin does not look.", SET)
        return
    if not apps.is_installed("django_celery_results"):
        yield warning(NAME, "django_celery_results is not installed: Celery keeps no results.", SET)
        return
    rows = apps.get_model("django_celery_results", "TaskResult").objects.order_by("-date_done").annotate(now=Now())
    newest = rows.values_list("date_done", "now")[:1]
    for done_at, now in newest:
        yield ok(NAME, f"django-db: the newest was stored {max(0.0, (now - done_at).total_seconds()):.0f} s ago.")
    if not newest:
        yield ok(NAME, "django-db: none was stored yet.")
