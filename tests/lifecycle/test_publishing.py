"""A message for every row and none without; a broker that is gone, silent or back costs its time and no more."""

import base64
import json
import socket
import threading
import uuid
from uuid import UUID

import pytest
from celery import Celery, current_app
from celery.signals import before_task_publish
from kombu.serialization import registry

from mcp_app.lifecycle import broker, publishing, task_messages, transitions
from mcp_app.lifecycle.publishing import BrokerUnavailableError
from mcp_app.states import Outcome, Status
from tests.lifecycle import brokers, rows

BOUNDED = pytest.mark.timeout(15)
"""Without its limits a silent Redis is waited for without end."""

NEEDS_CLIENT = {"redis": pytest.mark.engines, "amqp": ()}
"""Celery brings the client of only one of them."""
BROKEN = [
    pytest.param((kind, port), marks=NEEDS_CLIENT[kind], id=f"{kind}-{port.__name__}")
    for kind in brokers.URLS
    for port in (brokers.refusing_port, brokers.silent_port, brokers.deaf_port)
]


@pytest.fixture(params=BROKEN)
def broken_broker(request, configure):
    kind, open_port = request.param
    configure(PUBLISH_TIMEOUT=0.5)
    with open_port() as port, brokers.celery_on(brokers.URLS[kind].format(port=port)):
        yield


@pytest.fixture(autouse=True)
def _broker_not_left_alone(monkeypatch):
    monkeypatch.setattr(publishing, "_speechless_until", 0.0)


@pytest.mark.fault("G12")
def test_a_message_carries_the_rows_id_and_nothing_else():
    row = rows.queued(arguments={"secret": "hunter2"})
    publishing.publish(row)
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        message = channel.basic_get(row.queue, no_ack=True)
    assert message.headers["task"] == publishing.RUN_TASK
    assert message.headers["id"] == str(row.pk)
    assert UUID(message.payload[0][0]) == row.pk
    assert b"hunter2" not in repr(message.__dict__).encode()


def _taken(channel, row):
    """The row's next message; before it there may be others' of an earlier test."""
    message = channel.basic_get(row.queue, no_ack=True)
    while message.headers["id"] != str(row.pk):
        message = channel.basic_get(row.queue, no_ack=True)
    own = {"delivery_tag", "delivery_info"}
    return message.body, message.headers, {key: value for key, value in message.properties.items() if key not in own}


def _send_as_celery_does(row):
    options = {"task_id": str(row.pk), "queue": row.queue, "ignore_result": False}
    current_app.send_task(publishing.RUN_TASK, args=(str(row.pk),), **options)


def test_a_message_is_the_one_that_celery_itself_would_send(monkeypatch):
    # As in a server, which does not know the task; where it is known Celery says its limits in the message, too.
    monkeypatch.delitem(current_app.tasks, publishing.RUN_TASK, raising=False)
    row = rows.queued()
    publishing.publish(row)
    _send_as_celery_does(row)
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        assert _taken(channel, row) == _taken(channel, row)


def test_where_a_body_shows_no_id_each_message_is_made_by_celery():
    def form():
        app, found = current_app._get_current_object(), []
        app.amqp.__dict__.pop("send_task_message", None)  # it keeps the serializer that was configured
        queue = app.amqp.queues[rows.queued().queue]
        broker._say(lambda producer: found.append(task_messages._made(app, producer, publishing.RUN_TASK, queue)))
        return found[0]

    def encoded(body):
        return base64.b64encode(json.dumps(body).encode()).decode()

    registry.register("encoded", encoded, lambda text: json.loads(base64.b64decode(text)), "application/x-encoded")
    before = current_app.conf.task_serializer
    try:
        assert form() is not None
        current_app.conf.task_serializer = "encoded"
        assert form() is None
    finally:
        current_app.conf.task_serializer = before
        current_app.amqp.__dict__.pop("send_task_message", None)
        registry.unregister("encoded")


def test_whoever_looks_at_messages_by_celerys_signals_sees_each():
    seen = []

    def see(sender, headers, **_):
        headers["seen"] = True
        seen.append((sender, headers["id"]))

    row = rows.queued()
    before_task_publish.connect(see, weak=False)
    try:
        publishing.publish(row)
    finally:
        before_task_publish.disconnect(see)
    assert seen == [(publishing.RUN_TASK, str(row.pk))]
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        assert _taken(channel, row)[1]["seen"]


def test_a_send_task_that_somebody_has_wrapped_is_used(monkeypatch):
    sent = []
    send_task = Celery.send_task

    def traced(self, name, *args, **options):
        sent.append(options["task_id"])
        return send_task(self, name, *args, **options)

    monkeypatch.setattr(Celery, "send_task", traced)
    row = rows.queued()
    publishing.publish(row)
    assert sent == [str(row.pk)]
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        assert _taken(channel, row)[1]["id"] == str(row.pk)


def test_several_are_published_together_each_with_its_own_message():
    published = [rows.queued() for _ in range(3)]
    assert publishing.publish_all(published) == [None] * 3
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        for row in published:
            assert _taken(channel, row)[1]["id"] == str(row.pk)


@BOUNDED
def test_several_that_a_broker_does_not_take_fail_each_for_itself(broken_broker, worker):
    waiting, cancelled = rows.queued(), rows.queued()
    rows.cancel(cancelled)
    refused, unneeded = publishing.publish_all([waiting, cancelled])
    assert isinstance(refused, BrokerUnavailableError)
    assert unneeded is None
    assert (rows.fresh(waiting).status, rows.fresh(cancelled).status) == (Status.FAILED, Status.CANCELLED)


@pytest.mark.fault("C7", "C8")
@BOUNDED
def test_a_broker_that_does_not_take_the_message_fails_the_row_and_says_so(broken_broker):
    row = rows.queued()
    with pytest.raises(BrokerUnavailableError):
        publishing.publish(row)
    after = rows.fresh(row)
    assert (after.status, after.error["cause"]) == (Status.FAILED, "broker")
    assert after.finished_at is not None
    assert transitions.claim(row.pk, worker=row.pk, pid=1) is None


@pytest.mark.fault("B11")
@BOUNDED
def test_a_broker_that_does_not_answer_loses_no_cancellation(broken_broker, worker):
    queued, running = rows.queued(), rows.running(worker)
    assert rows.cancel(queued) == rows.cancel(running) == Outcome.ACCEPTED
    assert rows.fresh(queued).status == Status.CANCELLED
    assert rows.fresh(running).cancel_requested_at is not None


@pytest.mark.fault("C8")
@BOUNDED
def test_many_cancellations_do_not_wait_for_a_silent_broker_each(configure, worker):
    configure(PUBLISH_TIMEOUT=4.0)
    with brokers.silent_port() as port, brokers.celery_on(brokers.URLS["amqp"].format(port=port)):
        for _ in range(40):
            assert rows.cancel(rows.running(worker)) == Outcome.ACCEPTED


def test_a_claim_that_came_first_outweighs_a_broker_that_seems_to_have_failed(configure, worker):
    configure(PUBLISH_TIMEOUT=0.5)
    row = rows.running(worker)
    with brokers.refusing_port() as port, brokers.celery_on(brokers.URLS["amqp"].format(port=port)):
        publishing.publish(row)
    assert rows.fresh(row).status == Status.RUNNING


def test_a_cancellation_that_came_first_outweighs_it_too(configure):
    configure(PUBLISH_TIMEOUT=0.5)
    row = rows.queued()
    rows.cancel(row)
    with brokers.refusing_port() as port, brokers.celery_on(brokers.URLS["amqp"].format(port=port)):
        publishing.publish(row)
    assert rows.fresh(row).status == Status.CANCELLED


@pytest.mark.fault("C9")
@pytest.mark.engines
@pytest.mark.parametrize(("kind", "port"), [("redis", 6379), ("amqp", 5672)])
def test_a_broker_that_came_back_is_spoken_to_on_a_new_connection(kind, port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError as error:
        pytest.skip(f"no {kind} broker on port {port}: {error}")
    line = brokers.Line(port)
    try:
        with brokers.celery_on(brokers.URLS[kind].format(port=line.port)) as app:
            row = rows.queued()
            publishing.publish(row)
            line.cut()
            publishing.publish(row)
            publishing.tell_workers_to_stop(row.pk)
            line.cut()
            publishing.tell_workers_to_stop(row.pk)
            assert publishing._speechless_until == 0.0, "both words were said"
            with app.connection_for_read() as connection, connection.channel() as channel:
                assert channel.basic_get(row.queue, no_ack=True) is not None
                assert channel.basic_get(row.queue, no_ack=True) is not None
                channel.queue_delete(row.queue)
    finally:
        line.hang_up()


def test_words_of_a_crowd_that_leaves_are_said_together(monkeypatch):
    """While one word is being said, those that come meanwhile wait for it and are said as one."""
    said, first_said, go_on = [], threading.Event(), threading.Event()

    def slow_broadcast(command, arguments):
        said.append(arguments["request_ids"])
        first_said.set()
        assert go_on.wait(10)

    monkeypatch.setattr(publishing.broker, "broadcast", slow_broadcast)
    ids = [uuid.uuid4() for _ in range(20)]
    first = threading.Thread(target=publishing.revoke, args=(ids[0],))
    first.start()
    assert first_said.wait(10)
    for request_id in ids[1:]:
        publishing.revoke(request_id)
    go_on.set()
    first.join()
    assert said == [[str(ids[0])], [str(request_id) for request_id in ids[1:]]]
