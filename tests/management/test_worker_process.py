"""The child process that runs the worker."""

from collections.abc import Callable

import pytest

from mcp_app.management.serving.worker_process import WorkerProcess


@pytest.mark.parametrize("end", [WorkerProcess.stop, WorkerProcess.kill])
def test_worker_that_never_began_can_be_ended_and_does_not_begin_then(end: Callable[[WorkerProcess], None]) -> None:
    ready: list[bool] = []
    worker = WorkerProcess(1, lambda: ready.append(True), pytest.fail)
    end(worker)
    worker.start()
    end(worker)
    assert ready == []
