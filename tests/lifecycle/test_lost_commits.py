"""If the answer to a commit is lost, the next attempt finds out whether it took effect."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError

from mcp_app import databases
from mcp_app.lifecycle import publishing
from mcp_app.states import Cause, Outcome, Status
from tests.support import rows

pytestmark = pytest.mark.fault("D4")


@pytest.fixture
def lose_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lose the answer to the next commit."""
    atomic, losing = databases.atomic, []

    @contextmanager
    def lossy() -> Iterator[None]:
        outermost = not databases.connection().in_atomic_block
        with atomic():
            yield
        if losing and outermost:
            losing.pop()
            raise OperationalError("the connection is lost")

    monkeypatch.setattr(databases, "atomic", lossy)
    return lambda: losing.append(True)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.QUEUED])
def test_a_cancellation_is_accepted_audited_and_passed_on_once(worker, monkeypatch, lose_one, status):
    told = []
    monkeypatch.setattr(publishing, "tell_workers_to_stop", lambda *ids: told.extend(ids))
    monkeypatch.setattr(publishing, "revoke", lambda *ids: told.extend(ids))
    row = rows.running(worker) if status == Status.RUNNING else rows.queued()
    lose_one()
    assert rows.cancel(row, Cause.ADMIN, "too dear") == Outcome.ACCEPTED
    assert rows.outcomes(row) == [Outcome.ACCEPTED]
    assert set(told) == {row.pk}
    assert rows.cancel(row, Cause.ADMIN, "too dear") != Outcome.ACCEPTED
    assert len(rows.outcomes(row)) == 2


def test_an_answer_whose_commit_was_lost_is_stored_once(worker, server, lose_one):
    row = rows.asking(worker)
    lose_one()
    taken = rows.answer(row, jsonrpc_id=9, server=server)
    assert taken is not None
    assert (taken.status, rows.fresh(row).status) == (Status.QUEUED, Status.QUEUED)
    assert rows.fresh(row).event_seq == taken.event_seq
    assert rows.answer(row, jsonrpc_id=9, server=server) is None
