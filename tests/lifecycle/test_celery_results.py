"""Celery's result backend stores the state of a run that was stopped."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app, states
from django_celery_results.backends.database import DatabaseBackend
from django_celery_results.models import TaskResult

from mcp_app.celery_adapter import results as celery_results

WHY = "client: enough, says the user"


@pytest.mark.parametrize("runs_here", [False, True], ids=["was killed", "stopped by itself"])
def test_a_stopped_run_is_stored_as_revoked_with_its_reason(monkeypatch: pytest.MonkeyPatch, runs_here: bool):
    monkeypatch.setattr(celery_results, "current_app", SimpleNamespace(backend=DatabaseBackend(app=current_app)))
    request_id = uuid4()
    # The message says that results are ignored, which holds only for runs that end well.
    request = SimpleNamespace(id=str(request_id), task="mcp_app.run", chord=None, errbacks=None, ignore_result=True)
    celery_results.store_revoked(request_id, WHY, request if runs_here else None)
    stored = TaskResult.objects.get(task_id=str(request_id))
    assert stored.status == states.REVOKED
    assert WHY in stored.result
    assert stored.task_name == ("mcp_app.run" if runs_here else None)


def test_a_backend_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    def fail(*args: Any, **options: Any) -> None:
        raise ConnectionError("no backend")

    monkeypatch.setattr(
        celery_results,
        "current_app",
        SimpleNamespace(backend=SimpleNamespace(mark_as_revoked=fail, mark_as_failure=fail)),
    )
    revoked, lost = uuid4(), uuid4()
    celery_results.store_revoked(revoked, WHY)
    celery_results.store_lost(lost, WHY)
    first, second = caplog.records
    assert [record.levelname for record in (first, second)] == ["WARNING", "WARNING"]
    assert str(revoked) in first.getMessage()
    assert str(lost) in second.getMessage()
