"""Lost database responses are recovered, and a row whose end cannot be stored does not stay open."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DataError, InternalError

from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.celery_adapter import broker
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from mcp_app.states import Status
from mcp_app.testing import worker
from mcp_app.testing.connections import BorrowedConnections
from mcp_app.testing.worker import BorrowedSlot
from mcp_app.tools import ToolContext, tool
from tests.support import rows

pytestmark = [pytest.mark.usefixtures("_tools"), pytest.mark.django_db(databases="__all__"), pytest.mark.fault("D2")]


@pytest.fixture
def _tools() -> Iterator[None]:
    with isolated_registries():

        @tool
        def plain() -> str:
            return "done"

        @tool
        def partly(ctx: ToolContext) -> str:
            ctx.partial_result = "half"
            return "done"

        yield


@pytest.fixture
def call() -> Iterator[Callable[[str], Request]]:
    """Run a call in this process and return its row."""
    here = worker.current()
    here.recorder.lent = BorrowedConnections()

    def called(name: str) -> Request:
        row = rows.queued(tool=name, arguments={}, principal=ANONYMOUS)
        publishing.publish(row)
        here.run_queued()
        return rows.fresh(row)

    with broker.replaced_by(here):
        yield called


@pytest.mark.parametrize("name", ["plain", "partly"])
def test_an_end_that_is_written_without_a_word_is_no_late_result(
    call: Callable[[str], Request], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    end_run, finish = transitions.end_run, transitions.finish

    def wordless_end_run(*args: Any, **options: Any) -> bool:
        end_run(*args, **options)
        return False  # as for a repeated attempt

    def wordless_finish(*args: Any, **options: Any) -> None:
        finish(*args, **options)

    monkeypatch.setattr(transitions, "end_run", wordless_end_run)
    monkeypatch.setattr(transitions, "finish", wordless_finish)
    row = call(name)
    assert (row.status, row.result["content"][0]["text"]) == (Status.COMPLETED, "done")
    assert "was discarded" not in caplog.text
    assert [data["status"] for kind, data in rows.story(row)] == ["queued", "running", "completed"]


@pytest.mark.parametrize("error", [InternalError("read-only"), DataError("no such value")], ids=["away", "refused"])
def test_where_no_end_is_taken_the_process_is_no_proof_that_the_call_runs(
    call: Callable[[str], Request], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise error

    left: list[object] = []
    monkeypatch.setattr(BorrowedSlot, "leave_to_supervision", lambda slot: left.append(slot))
    monkeypatch.setattr(transitions, "end_run", refuse)
    monkeypatch.setattr(transitions, "finish", refuse)
    with pytest.raises(type(error)):
        call("plain")
    assert len(left) == 1
