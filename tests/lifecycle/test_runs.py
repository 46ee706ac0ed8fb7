"""A single statement claims a run, and another ends it, with the same effect as the separate steps."""

import inspect
import re
from functools import partial
from importlib import import_module
from uuid import uuid4

import pytest

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Cause, EventKind, Status
from tests.support import rows
from tests.support.racing import races

OF_A_RUN = (
    "tool.context", "pools.coroutine_calls", "run.ending", "run.runner", "tool.starting",
    "process.watcher",
)  # fmt: skip
ERROR = {"cause": "tool", "type": "ValueError", "message": "no \x00"}


def change(row, **columns):
    Request.objects.filter(pk=row.pk).update(**columns)


def told_at_the_end(row):
    """Return everything that an end stores, except times and identities."""
    columns, story, attempts = rows.everything(row)
    own = ("id", "queue", "submitted_at", "queued_at", "claimed_at", "finished_at")
    return {name: value for name, value in columns.items() if name not in own}, story, attempts


@pytest.mark.parametrize(
    ("status", "result", "error"),
    [(Status.COMPLETED, rows.RESULT, None), (Status.FAILED, rows.RESULT, ERROR), (Status.FAILED, None, ERROR)],
)
def test_an_ordinary_end_leaves_what_any_end_leaves(worker, status, result, error):
    one, other = rows.running(worker), rows.running(worker)
    assert transitions.end_run(one, status, result=result, error=error) is True
    assert transitions.finish(other.pk, status, worker=worker, result=result, error=error) == status
    assert told_at_the_end(one) == told_at_the_end(other)
    after = rows.fresh(one)
    assert after.finished_at >= after.claimed_at
    assert Request.objects.filter(pk=one.pk, partial_result__isnull=True, unredacted__isnull=True).exists()


def test_an_end_comes_after_what_was_told_meanwhile(worker):
    row = rows.running(worker)
    transitions.record(row.pk, [Event(EventKind.LOG, {"data": "a"})] * 2)
    assert transitions.end_run(row, Status.COMPLETED, result=rows.RESULT)
    assert rows.numbers(row) == [1, 2, 3, 4, 5]
    assert rows.story(row)[-1] == ("transition", {"status": "completed"})


def test_a_run_asks_for_nothing_of_its_row_that_was_not_read_with_its_claim(worker):
    """A deferred column would cause a query on the tool's connection, perhaps in its transaction."""
    fields = {field.attname for field in Request._meta.concrete_fields}
    modules = [import_module(f"mcp_app.execution.{name}") for name in OF_A_RUN]
    asked = {name for module in modules for name in re.findall(r"row\.(\w+)", inspect.getsource(module))}
    claimed = rows.running(worker)
    assert {*asked & fields, *Principal.of(rows.queued()).columns} & claimed.get_deferred_fields() == set()


UNUSUAL = {
    "it is to stop": rows.cancel,
    "it was handed over as a task": lambda row: change(row, task_handle=uuid4()),
    "another server waits for it": lambda row: change(row, server=uuid4()),
    "another worker runs it": lambda row: change(row, worker=uuid4()),
    "it was given up": lambda row: transitions.give_up(row.pk),
    "it is being killed": lambda row: change(row, killing=True),
    "redaction left something out": lambda row: change(row, unredacted={"arguments": {}}),
    "it asks": lambda row: change(row, status=Status.INPUT_REQUIRED),
    "it waits again": lambda row: change(row, status=Status.QUEUED),
    "it has ended": lambda row: transitions.finish(row.pk, Status.FAILED, worker=row.worker),
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_an_end_that_is_not_ordinary_is_left_to_be_finished(worker, unusual):
    row = rows.running(worker)
    UNUSUAL[unusual](row)
    before = rows.everything(row)
    assert transitions.end_run(row, Status.COMPLETED, result=rows.RESULT) is False
    assert rows.everything(row) == before


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.COMPLETED, Status.FAILED}))
def test_a_run_comes_out_completed_or_failed(worker, status):
    with pytest.raises(ValueError, match=rf"^{status.value}\b.* run "):
        transitions.end_run(rows.running(worker), status)


@pytest.mark.fault("B1", "B2")
def test_of_an_end_and_a_cancellation_one_comes_first(worker):
    with races(2) as race:
        for _ in range(25):
            row = rows.running(worker)
            ended, said = race.run(partial(transitions.end_run, row, Status.COMPLETED), partial(rows.cancel, row))
            assert ended == (said == "too_late")
            assert rows.fresh(row).status == (Status.COMPLETED if ended else Status.RUNNING)
            assert rows.numbers(row) == [1, 2, 3]


def test_what_is_past_its_deadline_or_whose_starter_is_to_stop_is_not_claimed(worker):
    late = rows.queued()
    change(late, deadline_at=from_now(-1))
    starter = rows.running(worker)
    orphan = rows.queued(parent=starter.pk)
    child = rows.queued(parent=starter.pk)
    assert transitions.claim(child.pk, worker=worker, pid=1) is not None
    change(starter, cancel_requested_at=Now(), cancel_cause=Cause.CLIENT)
    for row in (late, orphan, rows.queued(parent=uuid4())):
        before = rows.everything(row)
        assert transitions.claim(row.pk, worker=worker, pid=1) is None
        assert rows.everything(row) == before


def test_a_claim_leaves_a_run_no_longer_than_its_callers_limit_does(worker):
    row = rows.queued(time_limit=60.0, caller_limit=100.0)
    change(row, queued_at=from_now(-90))
    claimed = transitions.claim(row.pk, worker=worker, pid=1)
    assert (claimed.deadline_at - claimed.claimed_at).total_seconds() == pytest.approx(10, abs=0.5)
    assert (claimed.deadline_at - claimed.claimed_at).total_seconds() == pytest.approx(claimed.run_limit, abs=0.01)
