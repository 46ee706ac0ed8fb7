"""A call's message on a real Redis: on its way through a worker nothing is written of it, and it is not lost."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from celery import Celery
from kombu import Connection, Producer, Queue
from kombu.transport.virtual.base import Message

from mcp_app.lifecycle import task_messages
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK, RUN_TASK
from mcp_app.lifecycle.task_messages import Addressed
from tests.acceptance.services import ServicesMissingError, missing, own_services

if TYPE_CHECKING:
    from redis import Redis

pytestmark = pytest.mark.engines
QUEUE = Queue("calls", routing_key="calls", no_declare=False)


@pytest.fixture
def url() -> Iterator[str]:
    try:
        with own_services() as services:
            yield services["MCPSITE_BROKER"]
    except ServicesMissingError as error:
        missing(f"NO Redis: {error}")


@pytest.fixture
def redis(url: str) -> Iterator["Redis[bytes]"]:
    from redis import Redis

    parts = urlsplit(url)
    with Redis(host=parts.hostname, port=parts.port, db=int(parts.path.strip("/") or 0)) as client:
        yield client


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with Connection(url) as made:
        yield made


def sent(url: str, task: str) -> None:
    app = Celery(broker=url, set_as_current=False)
    app.send_task(task, ("an id",), queue=QUEUE)


def fetched(channel: Any) -> Message:
    message = channel.basic_get(QUEUE(channel).name)
    assert message is not None
    return channel.message_to_python(message)


def known(redis: "Redis[bytes]") -> int:
    """Messages that Redis says a worker has."""
    return redis.hlen("unacked") + redis.zcard("unacked_index")


def test_redis_urls_mean_this_transport(connection: Connection) -> None:
    from mcp_app.lifecycle.redis_transport import Transport

    assert isinstance(connection.transport, Transport)


@pytest.mark.parametrize("task", [RUN_TASK, RUN_BATCH_TASK])
def test_a_calls_message_is_taken_and_acknowledged_without_a_word(
    url: str, redis: "Redis[bytes]", connection: Connection, task: str
) -> None:
    sent(url, task)
    message = fetched(connection.channel())
    assert known(redis) == 0
    message.ack()
    assert known(redis) == 0
    connection.close()
    assert redis.llen(QUEUE.name) == 0


def test_another_tasks_message_is_known_to_redis_until_it_is_acknowledged(
    url: str, redis: "Redis[bytes]", connection: Connection
) -> None:
    sent(url, "site.report")
    message = fetched(connection.channel())
    assert known(redis) == 2
    message.ack()
    assert known(redis) == 0


def test_several_messages_are_one_round_trip(
    url: str, redis: "Redis[bytes]", connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redis.connection import AbstractConnection

    app = Celery(broker=url, set_as_current=False)
    app.conf.task_queues = [QUEUE]
    channel = connection.channel()
    producer = Producer(channel)
    task_messages.send(app, producer, RUN_TASK, [Addressed(["declares"], QUEUE.name)])
    written: list[object] = []
    send = AbstractConnection.send_packed_command

    def counted(self: AbstractConnection, command: object, **options: object) -> None:
        written.append(command)
        send(self, command, **options)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", counted)
    task_messages.send(app, producer, RUN_TASK, [Addressed([str(number)], QUEUE.name) for number in range(5)])
    assert len(written) == 1
    monkeypatch.undo()
    assert [fetched(channel).headers["id"] for _ in range(6)] == ["declares", *map(str, range(5))]


@pytest.mark.parametrize("task", [RUN_TASK, "site.report"])
def test_what_was_not_acknowledged_when_a_worker_ends_is_given_back(
    url: str, redis: "Redis[bytes]", connection: Connection, task: str
) -> None:
    sent(url, task)
    channel = connection.channel()
    fetched(channel)
    channel.close()
    assert (redis.llen(QUEUE.name), known(redis)) == (1, 0)
    assert fetched(connection.channel()).headers["redelivered"] is True


def test_a_site_may_switch_acknowledgements_off(url: str, redis: "Redis[bytes]") -> None:
    sent(url, RUN_TASK)
    with Connection(url, transport_options={"ack_emulation": False}) as connection:
        fetched(connection.channel())
        connection.close()
    assert known(redis) == 0


@pytest.mark.parametrize("task", [RUN_TASK, "site.report"])
@pytest.mark.parametrize(("requeue", "left"), [(True, 1), (False, 0)])
def test_what_is_rejected_is_given_back_or_dropped(
    url: str, redis: "Redis[bytes]", connection: Connection, task: str, requeue: bool, left: int
) -> None:
    sent(url, task)
    fetched(connection.channel()).reject(requeue=requeue)
    assert (redis.llen(QUEUE.name), known(redis)) == (left, 0)


def test_a_channel_keeps_one_client_for_as_long_as_its_pool(connection: Connection) -> None:
    channel = connection.channel()
    with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
        assert first is second
    channel._disconnect_pools()
    with channel.conn_or_acquire() as after:
        assert after is not first
        after.ping()
