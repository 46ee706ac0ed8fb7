"""Celery learns that a run was stopped, whichever way it was stopped."""

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_app.celery_adapter import results as celery_results
from mcp_app.execution.run.ending import Ending, report_to_celery
from mcp_app.states import Status
from tests.support import rows


@pytest.mark.parametrize("raised", [None, ValueError("cut short"), MemoryError()], ids=["nothing", "error", "memory"])
def test_a_run_that_was_stopped_is_told_as_stopped_whatever_it_raised_meanwhile(
    worker: Any, monkeypatch: pytest.MonkeyPatch, raised: BaseException | None
) -> None:
    told: list[str] = []
    backend = SimpleNamespace(mark_as_revoked=lambda task_id, why, **options: told.append(why))
    monkeypatch.setattr(celery_results, "current_app", SimpleNamespace(backend=backend))
    task: Any = SimpleNamespace(request=SimpleNamespace(id="1"))
    recorder: Any = SimpleNamespace(call_in_this_thread=lambda function: function())
    row = rows.running(worker)
    rows.cancel(row)
    returned = report_to_celery(recorder, task, row, Status.CANCELLED, Ending(Status.FAILED, celery_error=raised))
    assert returned == Status.CANCELLED.value
    [why] = told
    assert why.startswith(rows.fresh(row).cancel_cause)
