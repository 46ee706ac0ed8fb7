"""Repeated cancellation attempts are audited up to a limit, and none goes unnoticed (faults B3, B6, B10)."""

import re
from uuid import uuid4

import pytest

from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation, throttling
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.cancellation.throttling import RECORDED, WINDOW_SECONDS, BurstThrottle
from mcp_app.models import Cancellation
from mcp_app.presentation.cancellation_story import describe_attempt
from mcp_app.states import Cause, Outcome, Status
from tests.support import rows


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counts(clock):
    return BurstThrottle(clock)


def ask(counts, target=None, times=1, actor=rows.ADA, principal=rows.OWNER):
    for _ in range(times):
        asked = CancellationRequest(target or f"task {uuid4()}", Cause.CLIENT, actor, "", principal)
        [outcome] = cancellation.cancel_all([asked], throttle=counts)
    return outcome


def audited(outcome):
    return list(Cancellation.objects.filter(outcome=outcome).order_by("pk").values_list("reason", flat=True))


@pytest.mark.fault("B3")
def test_many_unknown_ids_are_some_rows_and_one_for_the_rest(counts, clock):
    assert ask(counts, times=RECORDED + 40) == Outcome.UNKNOWN
    assert audited(Outcome.UNKNOWN) == [""] * RECORDED
    counts.append_summaries()
    assert audited(Outcome.UNKNOWN) == [""] * RECORDED
    assert counts.wait == WINDOW_SECONDS
    clock.now += WINDOW_SECONDS
    counts.append_summaries()
    [summary] = audited(Outcome.UNKNOWN)[RECORDED:]
    assert set(re.findall(r"\d+ \w+", summary)) == {"40 more", "60 s"}
    assert "changed nothing" in describe_attempt(Cancellation.objects.latest("pk")).words
    assert counts.wait is None
    counts.append_summaries(all_windows=True)
    assert len(audited(Outcome.UNKNOWN)) == RECORDED + 1


def test_a_new_window_audits_one_by_one_again_and_keeps_the_count_of_the_last(counts, clock):
    ask(counts, times=RECORDED + 5)
    clock.now += WINDOW_SECONDS
    ask(counts)
    assert audited(Outcome.UNKNOWN) == [""] * (RECORDED + 1)
    assert counts.wait == 0
    counts.append_summaries()
    assert set(re.findall(r"\d+ \w+", audited(Outcome.UNKNOWN)[-1])) == {"5 more", "60 s"}


@pytest.mark.fault("B3")
def test_every_attempt_that_takes_is_audited_whatever_came_before_it(counts, worker):
    ask(counts, times=RECORDED + 5)
    row = rows.running(worker)
    assert ask(counts, row.pk) == Outcome.ACCEPTED
    assert ask(counts, row.pk, times=RECORDED + 2) == Outcome.DUPLICATE
    assert rows.outcomes(row) == [Outcome.ACCEPTED, *[Outcome.DUPLICATE] * RECORDED]
    assert rows.fresh(row).cancel_requested_at is not None


@pytest.mark.fault("B10")
def test_the_bound_is_for_each_client_and_for_no_administrator(counts):
    ask(counts, times=RECORDED + 5)
    ask(counts, actor=Actor("Ada", "192.0.2.8"))
    ask(counts, actor=Actor("Eve", "192.0.2.7"))
    ask(counts, times=RECORDED + 5, principal=None)
    assert len(audited(Outcome.UNKNOWN)) == RECORDED + 2 + RECORDED + 5


def test_a_request_that_has_ended_is_too_late_as_often_as_it_is_asked_for(counts, worker):
    row = rows.running(worker)
    cancellation.transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert ask(counts, row.pk, times=RECORDED + 5) == Outcome.TOO_LATE
    assert rows.outcomes(row) == [Outcome.TOO_LATE] * RECORDED
    assert ask(counts, row.pk, principal=rows.STRANGER) == Outcome.DENIED
    assert rows.outcomes(row)[-1] == Outcome.DENIED


def test_what_could_not_be_written_is_written_later(counts, monkeypatch):
    ask(counts, times=RECORDED + 5)

    def broken(*args, **kwargs):
        raise OSError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(throttling, "_append", broken)
        with pytest.raises(OSError, match="away"):
            counts.append_summaries(all_windows=True)
    assert counts.wait is not None
    counts.append_summaries()
    assert len(audited(Outcome.UNKNOWN)) == RECORDED + 1


def test_windows_that_are_over_are_not_kept_for_actors_that_come_once(counts, clock, monkeypatch):
    monkeypatch.setattr(throttling, "KINDS", 3)
    for number in range(10):
        ask(counts, actor=Actor("Ada", f"192.0.2.{number}"))
        clock.now += WINDOW_SECONDS
    assert len(counts._open) <= throttling.KINDS
