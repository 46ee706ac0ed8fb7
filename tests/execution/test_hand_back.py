"""A call is published again if it reaches a process that is shutting down."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcp_app.execution.process import child
from mcp_app.execution.worker import run_tool
from mcp_app.states import Status
from tests.support import rows
from tests.support.thread_worker import ThreadWorker


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_call_that_reaches_a_process_which_is_to_end_is_published_again(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows.queued(queue="mcp")
    with ThreadWorker.at_work(monkeypatch) as worker:
        monkeypatch.setattr(child._thread_pool_children[os.getpid()].termination, "received_at", 1.0)
        worker._ending.set()
        worker._thread.join()
        with ThreadPoolExecutor(1) as thread, pytest.raises(SystemExit):
            thread.submit(run_tool, str(row.pk)).result()
        assert worker._queue.get(timeout=5).headers["id"] == str(row.pk)
    assert rows.fresh(row).status == Status.QUEUED
