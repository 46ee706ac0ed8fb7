"""Every row gets a message, and a rolled-back row gets none. A broken broker only delays the caller."""

import socket
from uuid import UUID

import pytest
from celery import Celery, current_app
from celery.signals import before_task_publish

from mcp_app.celery_adapter.broker import RUN_TASK
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.publishing import BrokerUnavailableError
from mcp_app.lifecycle.requests import transitions
from mcp_app.states import Outcome, Status
from tests.support import brokers, rows

pytestmark = pytest.mark.usefixtures("_broker_not_left_alone")


BOUNDED = pytest.mark.timeout(15)
"""Without these limits, a client waits for a silent Redis without end."""

NEEDS_CLIENT = {"redis": pytest.mark.engines, "amqp": ()}
"""Celery installs the client of only one of them."""
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


@pytest.fixture
def _broker_not_left_alone(monkeypatch):
    monkeypatch.setattr(publishing, "_silent_until", 0.0)


@pytest.mark.fault("G12")
def test_a_message_carries_the_rows_id_and_nothing_else():
    row = rows.queued(arguments={"secret": "hunter2"})
    publishing.publish(row)
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        message = channel.basic_get(row.queue, no_ack=True)
    assert message.headers["task"] == RUN_TASK
    assert message.headers["id"] == str(row.pk)
    assert UUID(message.payload[0][0]) == row.pk
    assert b"hunter2" not in repr(message.__dict__).encode()


def _taken(channel, row):
    """Return the row's next message. Messages of an earlier test may come before it."""
    message = channel.basic_get(row.queue, no_ack=True)
    while message.headers["id"] != str(row.pk):
        message = channel.basic_get(row.queue, no_ack=True)
    own = {"delivery_tag", "delivery_info"}
    return message.body, message.headers, {key: value for key, value in message.properties.items() if key not in own}


def _send_as_celery_does(row):
    options = {"task_id": str(row.pk), "queue": row.queue, "ignore_result": True}
    current_app.send_task(RUN_TASK, args=(str(row.pk),), **options)


def test_a_message_is_the_one_that_celery_itself_would_send(monkeypatch):
    # As in a server process, which does not know the task. For a known task, Celery adds its limits to the message.
    monkeypatch.delitem(current_app.tasks, RUN_TASK, raising=False)
    row = rows.queued()
    publishing.publish(row)
    _send_as_celery_does(row)
    with current_app.connection_for_read() as connection, connection.channel() as channel:
        assert _taken(channel, row) == _taken(channel, row)


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
    assert seen == [(RUN_TASK, str(row.pk))]
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
            assert publishing._silent_until == 0.0, "both words were said"
            with app.connection_for_read() as connection, connection.channel() as channel:
                assert channel.basic_get(row.queue, no_ack=True) is not None
                assert channel.basic_get(row.queue, no_ack=True) is not None
                channel.queue_delete(row.queue)
    finally:
        line.hang_up()
