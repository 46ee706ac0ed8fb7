"""The token bucket in front of the database: a burst passes, a flood is thinned, first and last are kept."""

import pytest

from mcp_app.execution.recorder import EventBuffer
from mcp_app.lifecycle.events import Event
from mcp_app.states import EventKind


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


def test_a_flood_keeps_the_first_the_burst_and_the_last(bucket):
    for value in range(1000):
        bucket.offer(progress(value), 0.0)
    kept = values(bucket.take(0.0)) + values(bucket.take(0.0, final=True))
    assert kept == [0, 1, 2, 999]


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
