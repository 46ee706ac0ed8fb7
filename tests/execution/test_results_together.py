"""Celery's results of calls that came in one message: stored together, none kept for long, and nobody's trouble."""

import math
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from django_celery_results.models import TaskResult

from mcp_app.execution import reporting
from mcp_app.execution.reporting import Success, kept_together
from tests.lifecycle import rows

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


class Recorder:
    """Writes here."""

    def call_here(self, function: Callable[[], Any], *, patience: float) -> Any:
        return function()


def ended() -> SimpleNamespace:
    """A run whose end was written; what Celery then looks at."""
    task_request = SimpleNamespace(ignore_result=False)
    success = Success(rows.celery_result(rows.queued()), task_request)
    assert success.beside is None, "it is not written with the end"
    success.is_seen_to()
    return task_request


def stored() -> int:
    return TaskResult.objects.count()


def test_they_are_stored_when_the_last_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "LONGEST_KEPT", math.inf)
    with kept_together(Recorder()) as results:
        for _ in range(3):
            assert ended().ignore_result
            results.store_if_due()
        assert stored() == 0
    assert stored() == 3


def test_where_they_take_long_each_is_stored_before_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "LONGEST_KEPT", -1.0)
    with kept_together(Recorder()) as results:
        for count in (1, 2):
            ended()
            results.store_if_due()
            assert stored() == count
        results.store_if_due()
    assert stored() == 2


def test_their_times_are_those_of_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([datetime(2026, 1, day, tzinfo=timezone.get_current_timezone()) for day in range(1, 20)])
    monkeypatch.setattr(timezone, "now", lambda: next(times))
    with kept_together(Recorder()):
        ended()
        ended_at = next(times)
        for _ in range(5):
            next(times)
    assert TaskResult.objects.get().date_done < ended_at


def test_alone_a_result_is_written_with_the_end() -> None:
    row = rows.queued()
    beside = Success(rows.celery_result(row), SimpleNamespace()).beside
    assert beside is not None
    assert str(row.pk) in beside.values


def test_a_store_that_fails_is_nobodys_trouble(caplog: pytest.LogCaptureFixture) -> None:
    def fail(function: Callable[[], Any], *, patience: float) -> Any:
        raise OSError("no room")

    with kept_together(SimpleNamespace(call_here=fail)):
        ended()
    assert "Celery's results of 1 requests are as they were" in caplog.text
