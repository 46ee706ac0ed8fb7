"""Who waits for calls that came in one message is told of their ends in one word, unless they take long."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from mcp_app.execution import batches
from mcp_app.lifecycle import transitions, wakeups
from mcp_app.lifecycle.publishing import RUN_TASK
from mcp_app.states import ProcessRole, Status
from tests.lifecycle import rows

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


class Calls:
    """A message's calls, each of which is its end alone, and the server that waits for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, listener: socket.socket, server: UUID) -> None:
        worker = rows.alive(ProcessRole.WORKER)
        self._rows = {str(row.pk): row for row in (rows.running(worker, server=server) for _ in range(3))}
        self._listener = listener
        monkeypatch.setattr(batches, "trace_task", self._trace)
        monkeypatch.setattr(batches.child, "current", lambda: SimpleNamespace(recorder=None))

    def run(self) -> None:
        task = SimpleNamespace(app=SimpleNamespace(tasks={RUN_TASK: None}), request=SimpleNamespace())
        batches.run_all(task, list(self._rows))

    def _trace(self, task: Any, request_id: str, *args: Any, **options: Any) -> None:
        self.begun(request_id)
        assert transitions.end_run(self._rows[request_id], Status.COMPLETED, result=rows.RESULT)
        self.ended(request_id)

    def begun(self, request_id: str) -> None:
        """For a test to have something else happen, as in `ended`."""

    def ended(self, request_id: str) -> None: ...

    @property
    def all(self) -> list[UUID]:
        return [row.pk for row in self._rows.values()]

    def hints(self) -> list[set[UUID] | None]:
        found = []
        while True:
            try:
                found.append(wakeups.named(self._listener.recv(wakeups.DATAGRAM_BYTES)))
            except BlockingIOError:
                return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    server = rows.alive(ProcessRole.SERVER)
    with wakeups.listening_socket(server.hex) as listener:
        yield Calls(monkeypatch, listener, server)


def test_quick_calls_are_one_hint(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "LONGEST_KEPT", 3600.0)
    calls.run()
    assert calls.hints() == [set(calls.all)]


def test_one_that_ends_late_is_told_by_its_end(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "LONGEST_KEPT", 0.0)
    told: list[set[UUID] | None] = []
    monkeypatch.setattr(calls, "ended", lambda request_id: told.extend(calls.hints()))
    calls.run()
    assert told == [{each} for each in calls.all]


def test_one_whose_hint_is_due_when_it_is_over_is_told_before_the_next_begins(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[set[UUID] | None] = []

    def begin(request_id: str) -> None:
        monkeypatch.setattr(wakeups, "LONGEST_KEPT", 3600.0)
        told.extend(calls.hints())

    def end(request_id: str) -> None:
        assert calls.hints() == [], "it is kept"
        monkeypatch.setattr(wakeups, "LONGEST_KEPT", 0.0)

    monkeypatch.setattr(calls, "begun", begin)
    monkeypatch.setattr(calls, "ended", end)
    calls.run()
    assert [*told, *calls.hints()] == [{each} for each in calls.all]


def test_where_its_process_is_to_end_in_the_middle_it_is_told_first(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "LONGEST_KEPT", 3600.0)
    told: list[set[UUID] | None] = []

    def end(request_id: str) -> None:
        raise SystemExit

    monkeypatch.setattr(calls, "ended", end)
    monkeypatch.setattr(batches.publishing, "send_unclaimed", lambda left: told.extend(calls.hints()))
    with pytest.raises(SystemExit):
        calls.run()
    assert told == [{calls.all[0]}]
