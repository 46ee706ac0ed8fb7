"""A worker that cannot identify its own processes ends, because its calls would not be supervised."""

from types import SimpleNamespace

import pytest
from celery.exceptions import WorkerTerminate
from django.db import OperationalError

from mcp_app.catalogue import tool_rows
from mcp_app.execution import worker


@pytest.mark.fault("D2")
def test_a_worker_whose_database_is_away_as_it_begins_ends_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> set[str]:
        raise OperationalError("the database is away")

    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(tool_rows, "queues", away)
    queues = SimpleNamespace(consume_from={"waiting": None})
    consumer = SimpleNamespace(app=SimpleNamespace(amqp=SimpleNamespace(queues=queues)))
    worker._start(SimpleNamespace(controller=consumer))  # the site's own worker, which this app does not affect
    worker.take_for_tools(consumer, follows=False)
    with pytest.raises(WorkerTerminate):
        worker._start(SimpleNamespace(controller=consumer))
    [logged] = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert all(fact in logged.getMessage() for fact in ("tools", "exits", "the database is away"))
