"""The token bucket in front of the database: a burst passes, a flood is thinned, and the first and last are kept."""

from uuid import uuid4

import pytest

from mcp_app.execution.recorder import EventBuffer, Recorder
from mcp_app.lifecycle.requests.events import Event
from mcp_app.states import EventKind
from tests.support import rows


def progress(value):
    return Event(EventKind.PROGRESS, {"progress": value})


@pytest.fixture
def bucket(configure):
    configure(EVENT_BURST=3, EVENT_RATE=10.0)
    return EventBuffer(0.0)


def values(events):
    return [event.data["progress"] for event in events]


def test_a_burst_is_kept_whole_and_in_order(bucket):
    for value in range(3):
        bucket.offer(progress(value), 0.0)
    assert values(bucket.take(0.0)) == [0, 1, 2]


@pytest.mark.fault("E3")
def test_a_flood_keeps_the_first_the_burst_and_the_last(bucket):
    for value in range(1000):
        bucket.offer(progress(value), 0.0)
    kept = values(bucket.take(0.0)) + values(bucket.take(0.0, final=True))
    assert kept == [0, 1, 2, 999]


@pytest.mark.fault("E3")
def test_E3_of_a_hundred_thousand_reports_a_second_no_more_than_burst_and_rate_are_kept(configure):
    configure(EVENT_BURST=50, EVENT_RATE=100.0)
    bucket = EventBuffer(0.0)
    seconds, a_second = 2, 100_000
    kept = []
    for number in range(seconds * a_second):
        now = number / a_second
        bucket.offer(progress(number), now)
        if bucket.wait(now) == 0.0:
            kept += values(bucket.take(now))
    kept += values(bucket.take(seconds, final=True))
    assert 50 + seconds * 100 - 1 <= len(kept) <= 50 + seconds * 100 + 1
    assert (kept[0], kept[-1]) == (0, seconds * a_second - 1)
    assert kept == sorted(set(kept))


def test_only_what_is_due_sooner_wakes_the_thread_that_writes(bucket):
    assert [bucket.offer(progress(value), 0.0) for value in range(6)] == [True, False, False, False, False, False]
    bucket.take(0.0)
    assert bucket.offer(progress(6), 0.05) is False  # the delayed events are due in any case now
    bucket.take(0.1)
    assert bucket.offer(progress(7), 0.1) is True
    bucket.take(0.0, final=True)
    assert bucket.offer(progress(8), 1.0) is True


def test_what_was_held_back_is_due_when_a_token_is(bucket):
    for value in range(5):
        bucket.offer(progress(value), 0.0)
    bucket.take(0.0)
    assert bucket.wait(0.0) == pytest.approx(0.1)
    assert values(bucket.take(0.1)) == [4]


def test_an_empty_bucket_waits_for_nothing(bucket):
    assert bucket.wait(0.0) is None
    assert bucket.take(5.0, final=True) == []


def test_a_log_line_does_not_displace_progress(bucket):
    for value in range(4):
        bucket.offer(progress(value), 0.0)
    bucket.offer(Event(EventKind.LOG, {"data": "words"}), 0.0)
    kept = bucket.take(0.0, final=True)
    assert [event.kind for event in kept] == [EventKind.PROGRESS] * 4 + [EventKind.LOG]


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_events_of_requests_that_run_at_once_are_kept_apart():
    recorder, worker = Recorder(), uuid4()
    here, there = rows.running(worker), rows.running(worker)
    for row in (here, there):
        recorder.open(row.pk)
    for row, value in ((here, 1), (there, 2), (here, 3)):
        recorder.post(row.pk, progress(value))
    recorder.post(uuid4(), progress(4))
    recorder._flush()
    assert [data["progress"] for kind, data in rows.story(here) if kind == "progress"] == [1, 3]
    assert [data["progress"] for kind, data in rows.story(there) if kind == "progress"] == [2]
