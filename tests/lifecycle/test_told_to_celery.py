"""What Celery is told of a run that was stopped: that it was, however it took that."""

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_app.execution import reporting
from mcp_app.execution.ending import Ending
from mcp_app.states import Status
from tests.lifecycle import rows


@pytest.mark.parametrize("raised", [None, ValueError("cut short"), MemoryError()], ids=["nothing", "error", "memory"])
def test_a_run_that_was_stopped_is_told_as_stopped_whatever_it_raised_meanwhile(
    worker: Any, raised: BaseException | None
) -> None:
    told: list[str] = []
    backend = SimpleNamespace(mark_as_revoked=lambda task_id, why, **options: told.append(why))
    task: Any = SimpleNamespace(backend=backend, request=SimpleNamespace(id="1", ignore_result=False))
    recorder: Any = SimpleNamespace(call_here=lambda function: function())
    row = rows.running(worker)
    rows.cancel(row)
    returned = reporting.report(recorder, task, row, Status.CANCELLED, Ending(Status.FAILED, raised=raised))
    assert returned == Status.CANCELLED.value
    assert task.request.ignore_result
    [why] = told
    assert why.startswith(rows.fresh(row).cancel_cause)
