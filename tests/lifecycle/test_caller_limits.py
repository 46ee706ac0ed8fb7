"""A caller may shorten a request's time limit, which covers waiting and running together, but never extend it."""

from datetime import timedelta

import pytest
from django.db.models import F

from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from tests.support import rows

pytestmark = pytest.mark.fault("C6")


def later(row, seconds):
    past = timedelta(seconds=seconds)
    for column in ("queued_at", "claimed_at", "deadline_at"):
        Request.objects.filter(pk=row.pk, **{f"{column}__isnull": False}).update(**{column: F(column) - past})


def given(row, since):
    """Seconds from `since` to the deadline."""
    after = rows.fresh(row)
    return (after.deadline_at - getattr(after, since)).total_seconds()


def ended(row):
    after = rows.fresh(row)
    return after.status, after.cancel_cause, after.cancel_reason


@pytest.mark.parametrize(("limit", "deadline"), [(2.5, 2.5), (None, 600.0), (9_000.0, 600.0), (9e12, 600.0)])
def test_it_bounds_the_wait_for_a_worker_where_it_is_less(limit, deadline):
    row = rows.queued(caller_limit=limit)
    assert given(row, "queued_at") == pytest.approx(deadline, abs=0.5)


@pytest.mark.parametrize(("limit", "left"), [(30.0, 20.0), (None, 60.0), (9_000.0, 60.0)])
def test_it_bounds_the_run_by_what_the_wait_left(worker, limit, left):
    row = rows.queued(caller_limit=limit)
    later(row, 10)
    claimed = transitions.claim(row.pk, worker=worker, pid=4711)
    assert claimed is not None
    assert claimed.run_limit == pytest.approx(left, abs=0.5)
    assert given(row, "claimed_at") == pytest.approx(left, abs=0.5)


def test_past_it_no_worker_may_claim_and_the_request_is_cancelled(worker):
    row = rows.queued(caller_limit=2.5)
    later(row, 3)
    assert transitions.claim(row.pk, worker=worker, pid=4711) is None
    assert rows.fresh(row).status == Status.QUEUED
    rounds.supervise()
    status, cause, reason = ended(row)
    assert (status, cause) == (Status.CANCELLED, Cause.DEADLINE)
    assert all(fact in reason for fact in ("caller", " 2.5 s"))


def test_past_the_longest_wait_no_worker_may_claim_either(worker):
    row = rows.queued()
    later(row, 601)
    assert transitions.claim(row.pk, worker=worker, pid=4711) is None
    rounds.supervise()
    status, cause, reason = ended(row)
    assert (status, cause) == (Status.CANCELLED, Cause.DEADLINE)
    assert "no worker" in reason


@pytest.mark.parametrize(("limit", "is_callers", "told"), [(2.5, True, " 2.5 s"), (61.0, False, " 60 s")])
def test_whose_limit_has_passed_is_told(worker, limit, is_callers, told):
    row = rows.running(worker, caller_limit=limit)
    later(row, 62)
    rounds.cancel_at_limit(Request.objects.filter(pk=row.pk))
    after = rows.fresh(row)
    assert after.cancel_cause == Cause.DEADLINE
    assert ("caller" in after.cancel_reason) == is_callers
    assert told in after.cancel_reason


def test_each_round_of_input_has_what_its_own_request_gave_it(worker):
    row = rows.asking(worker, caller_limit=30.0)
    assert given(row, "queued_at") == pytest.approx(1800.0, abs=5)
    rows.answer(row, caller_limit=7.0)
    assert given(row, "queued_at") == pytest.approx(7.0, abs=0.5)
    again = rows.asking(worker, caller_limit=30.0)
    rows.answer(again)
    assert given(again, "queued_at") == pytest.approx(600.0, abs=0.5)
