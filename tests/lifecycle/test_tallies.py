"""Ended calls are counted once, by outcome, and stay counted when their rows are purged."""

import math
from collections import Counter
from datetime import UTC, timedelta

import pytest
from django.core.management import call_command
from django.db.models import F, Sum
from django.db.utils import OperationalError
from hypothesis import given
from hypothesis import strategies as st

from mcp_app import databases
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.statistics import durations, tallies
from mcp_app.lifecycle.supervision import purging, rounds
from mcp_app.models import Request, Tally
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Cause, Measure, Stage, Status
from tests.support import rows
from tests.support.racing import race

RUNS = 3.0


def end(row, worker, status=Status.COMPLETED, **columns):
    assert transitions.finish(row.pk, status, worker=worker, result=rows.RESULT, **columns)
    return row


def ran_for(seconds, row):
    Request.objects.filter(pk=row.pk).update(
        claimed_at=F("finished_at") - timedelta(seconds=seconds),
        queued_at=F("finished_at") - timedelta(seconds=2 * seconds),
    )


def counted(measure=Measure.RUN):
    """The counts by the columns of a tally."""
    found = Tally.objects.filter(measure=measure).values_list("tool", "status", "cause", "stage", "bucket", "count")
    return {tuple(key): count for *key, count in found}


def test_ended_calls_are_counted_by_tool_end_and_length(worker):
    for _ in range(2):
        ran_for(RUNS, end(rows.running(worker), worker))
    ran_for(0.001, end(rows.running(worker, tool="sow"), worker, Status.FAILED))
    rounds.supervise()
    run = durations.bucket_of(RUNS)
    assert counted() == {
        ("dig", "completed", "", 0, run): 2,
        ("sow", "failed", "", 0, 0): 1,
    }
    assert counted(Measure.WAIT) == counted()
    assert counted(Measure.STOP) == {}
    assert Tally.objects.get(tool="dig", measure=Measure.RUN).seconds == pytest.approx(2 * RUNS)


def test_cancelled_calls_are_counted_by_cause_stage_and_time_to_stop(worker):
    stopped = rows.stopping(worker, Cause.DISCONNECT)
    end(stopped, worker, Status.CANCELLED, stage=Stage.INTERRUPT)
    Request.objects.filter(pk=stopped.pk).update(cancel_requested_at=F("finished_at") - timedelta(seconds=RUNS))
    rows.cancel(rows.queued(), Cause.ADMIN)
    tallies.count_ended()
    kinds = {("cancelled", "disconnect", 2), ("cancelled", "admin", 0)}
    assert {key[1:4] for key in counted()} == {key[1:4] for key in counted(Measure.STOP)} == kinds
    assert counted(Measure.STOP)["dig", "cancelled", "disconnect", 2, durations.bucket_of(RUNS)] == 1
    assert counted()["dig", "cancelled", "admin", 0, durations.NO_DURATION] == 1
    assert {key[1] for key in counted(Measure.WAIT)} == {"cancelled"}
    assert sum(counted(Measure.WAIT).values()) == 1


def test_the_time_of_waiting_for_answers_is_no_run(worker):
    rows.cancel(rows.asking(worker))
    tallies.count_ended()
    assert list(counted()) == [("dig", "cancelled", "client", 0, durations.NO_DURATION)]


def test_open_calls_are_not_counted_and_ended_ones_only_once(worker):
    for make in (rows.running, rows.stopping, rows.asking):
        make(worker)
    rows.queued()
    end(rows.running(worker), worker)
    for _ in range(3):
        tallies.count_ended()
    assert Tally.objects.filter(measure=Measure.RUN).aggregate(total=Sum("count"))["total"] == 1
    assert not tallies.uncounted().exists()


def test_of_concurrent_processes_only_one_counts(worker, monkeypatch):
    monkeypatch.setattr(tallies, "BATCH_SIZE", 3)
    ended = Counter(f"tool {number % 4}" for number in range(20))
    for tool, count in ended.items():
        for _ in range(count):
            end(rows.running(worker, tool=tool), worker)
    race(*[tallies.count_ended] * 4)
    tallies.count_ended()
    found = Tally.objects.filter(measure=Measure.RUN).values_list("tool").annotate(total=Sum("count"))
    assert dict(found.order_by()) == ended


def test_a_batch_with_calls_that_were_counted_in_the_meantime_is_not_counted(worker, monkeypatch):
    ended = [end(rows.running(worker), worker) for _ in range(3)]

    def count_one_meanwhile(row):
        Request.objects.filter(pk=ended[0].pk).update(tallied_at=Now())
        return measured(row)

    measured = tallies._measured
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(tallies, "_measured", count_one_meanwhile)
        tallies.count_ended()
    assert counted() == {}
    assert set(tallies.uncounted().values_list("pk", flat=True)) == {row.pk for row in ended[1:]}


def test_a_count_that_fails_half_way_counts_nothing(worker, monkeypatch):
    end(rows.running(worker), worker)

    def fail(sums):
        databases.connection().ensure_connection()
        raise OperationalError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(tallies, "_add", fail)
        broken.setattr("mcp_app.lifecycle.database.retries.ATTEMPTS", 1)
        with pytest.raises(OperationalError):
            tallies.count_ended()
    assert tallies.uncounted().count() == 1
    tallies.count_ended()
    assert sum(counted().values()) == 1


def test_counts_outlive_the_calls(worker, configure):
    configure(REQUEST_RETENTION_DAYS=1)
    row = end(rows.running(worker), worker)
    tallies.count_ended()
    old = {name: F(name) - timedelta(days=2) for name in ("submitted_at", "finished_at")}
    Request.objects.filter(pk=row.pk).update(**old)
    assert purging.purge_requests() == 1
    assert sum(counted().values()) == 1


def test_folding_merges_old_hours_and_days_and_keeps_the_totals(worker):
    ages = [0, 1, *[40 * 24 + hour for hour in range(0, 48, 6)], *[500 * 24 + hour for hour in (0, 30)]]
    for age in ages:
        row = end(rows.running(worker), worker)
        past = {name: F(name) - timedelta(hours=age) for name in ("queued_at", "claimed_at", "finished_at")}
        Request.objects.filter(pk=row.pk).update(**past)
    tallies.count_ended()
    before = total()
    assert tallies.fold_old() > 0
    assert total() == before
    hours = sorted(Tally.objects.filter(measure=Measure.RUN).values_list("hour", flat=True).distinct())
    assert hours[0] == tallies.OLDEST_HOUR
    assert len(hours) in {1 + 2 + 2, 1 + 3 + 2}
    assert {hour.hour for hour in hours[:-2]} == {0}
    assert tallies.fold_old() == 0


def total():
    found = Tally.objects.values_list("measure").annotate(Sum("count"), Sum("seconds")).order_by("measure")
    return [(measure, count, pytest.approx(seconds)) for measure, count, seconds in found]


def test_a_purge_folds_old_tallies(worker, capsys):
    row = end(rows.running(worker), worker)
    Request.objects.filter(pk=row.pk).update(finished_at=F("finished_at") - timedelta(days=500))
    tallies.count_ended()
    call_command("mcp", "purge")
    assert set(Tally.objects.values_list("hour", flat=True)) == {tallies.OLDEST_HOUR}


def test_an_hour_begins_with_its_first_second(worker):
    row = end(rows.running(worker), worker)
    finished = rows.fresh(row).finished_at.replace(minute=59, second=59)
    Request.objects.filter(pk=row.pk).update(finished_at=finished)
    tallies.count_ended()
    hours = set(Tally.objects.values_list("hour", flat=True))
    assert hours == {finished.astimezone(UTC).replace(minute=0, second=0, microsecond=0)}


@given(st.lists(st.floats(0.001, 60_000.0), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_is_right_to_the_width_of_its_bucket(durations, share):
    rank = max(1, math.ceil(len(durations) * share - 1e-9))
    true = sorted(durations)[rank - 1]
    found = held(*durations).quantile(share)
    assert found is not None
    assert true / 1.61 <= found <= true * 1.61


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 1.0])
def test_a_quantile_of_one_call_is_that_call(share):
    assert held(20.0).quantile(share) == 20.0
    assert held(70_000.0).quantile(share) == 70_000.0
    assert held(0.0004).quantile(share) == pytest.approx(0.0004)
    assert held(*[0.05] * 99, 20.0).quantile(1.0) == 20.0


def test_among_calls_of_one_bucket_the_median_is_their_mean():
    assert held(17.0, 18.0, 24.0).quantile(0.5) == pytest.approx(59 / 3)


def test_an_empty_histogram_has_no_quantiles():
    nothing = durations.Histogram()
    assert nothing.quantile(0.5) is None
    nothing.add(durations.NO_DURATION, 3, 0.0)
    assert nothing.quantile(0.5) is None


def held(*lengths):
    """The number of calls by duration, among calls without durations."""
    found = durations.Histogram()
    found.add(durations.NO_DURATION, 7, 0.0)
    for seconds in lengths:
        found.add(durations.bucket_of(seconds), 1, seconds)
    return found
