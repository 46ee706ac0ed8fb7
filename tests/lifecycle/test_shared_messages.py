"""Which calls of one moment share a message to Celery, and which have their own."""

import pytest
from celery import current_app
from celery.signals import before_task_publish

from mcp_app.lifecycle import publishing, run_times
from tests.lifecycle import brokers, rows


def _known_as_quick(*tools):
    for tool in tools:
        for _ in range(30):
            run_times.note(tool, 0.001)


def _together(queue, **changes):
    """Some more calls than fit into a message, for one queue, whose declaration is known."""
    published = [rows.queued(queue=queue, **changes) for _ in range(publishing.MOST_IN_BATCH + 2)]
    publishing.publish(published[0])
    assert publishing.publish_all(published[1:]) == [None] * (publishing.MOST_IN_BATCH + 1)
    return [str(row.pk) for row in published]


def _waiting(queue):
    """The messages of a queue: their tasks, ids and arguments."""
    found = []
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get(queue, no_ack=True)) is not None:
            found.append((message.headers, message.payload[0]))
    return found


def test_quick_calls_of_one_moment_share_a_message():
    _known_as_quick("dig")
    first, *together = _together("shared")
    alone, shared, rest = _waiting("shared")
    assert (alone[0]["id"], alone[1]) == (first, [first])
    assert (shared[0]["task"], shared[1]) == (publishing.RUN_BATCH_TASK, together[:-1])
    assert (rest[0]["task"], rest[0]["id"], rest[1]) == (publishing.RUN_TASK, together[-1], together[-1:])
    assert shared[0]["ignore_result"] is True
    assert shared[0]["id"] not in together, "who revokes the message of one drops no other"


def test_no_more_share_a_message_than_may_wait_for_one_another():
    for _ in range(200):
        run_times.note("dig", 0.03)
    _together("patient")
    sizes = [len(arguments) for _, arguments in _waiting("patient")]
    assert sizes == [1, 3, 3, 3]


OPTIONS = [
    {"task_protocol": 1},
    {"task_default_rate_limit": "100/s"},
    {"task_annotations": {publishing.RUN_TASK: {"rate_limit": "100/s"}}},
    {"worker_max_tasks_per_child": 1},
]


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_a_site_that_speaks_otherwise_or_counts_tasks_has_each_sent_by_itself(option):
    _known_as_quick("dig")
    with brokers.celery_on("memory://") as app:
        app.conf.update(option)
        published = [rows.queued(queue="own") for _ in range(4)]
        publishing.publish(published[0])
        publishing.publish_all(published[1:])
        assert [_id_of(message) for message in _raw("own")] == [str(row.pk) for row in published]


def _raw(queue):
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get(queue, no_ack=True)) is not None:
            yield message


def _id_of(message):
    """By Celery's protocol 1 or 2."""
    return message.payload["args"][0] if isinstance(message.payload, dict) else message.payload[0][0]


def test_calls_that_take_long_or_wait_for_other_workers_have_messages_of_their_own():
    assert len(_waiting_after(lambda: _together("slow"), "slow")) == publishing.MOST_IN_BATCH + 2
    _known_as_quick("dig")
    apart = [rows.queued(queue=queue) for queue in ("left", "right") * 2]
    for row in apart[:2]:
        publishing.publish(row)
    publishing.publish_all(apart)
    for queue in ("left", "right"):
        own = [str(row.pk) for row in apart if row.queue == queue]
        assert [arguments for _, arguments in _waiting(queue)] == [own[:1], own]


def _waiting_after(act, queue):
    act()
    return _waiting(queue)


def test_where_celery_makes_the_messages_each_call_has_its_own():
    def see(**_):
        """Somebody who wants to see each."""

    _known_as_quick("dig")
    before_task_publish.connect(see)
    try:
        published = _together("seen")
    finally:
        before_task_publish.disconnect(see)
    assert sorted(arguments for _, arguments in _waiting("seen")) == sorted([each] for each in published)


def test_of_calls_left_behind_those_that_wait_are_published_again(worker):
    waiting, cancelled = rows.queued(queue="left-behind"), rows.queued(queue="left-behind")
    running = rows.running(worker, queue="left-behind")
    rows.cancel(cancelled)
    publishing.send_unclaimed([waiting.pk, cancelled.pk, running.pk])
    assert [arguments for _, arguments in _waiting("left-behind")] == [[str(waiting.pk)]]
