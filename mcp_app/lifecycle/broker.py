"""The connections on which this app speaks to the broker: each word is said once and within `PUBLISH_TIMEOUT`.

Kept apart from Celery's own pool, whose connections wait without a limit for a broker that is silent (Redis) or gone
(every control message). Refuses to queue what was not said: the rows are the truth, and supervision says it again.
"""
# mypy: allow-untyped-calls
# kombu types a part of itself

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from celery import Celery, current_app
from kombu.connection import Connection
from kombu.exceptions import KombuError
from kombu.messaging import Producer
from kombu.pools import PoolGroup, ProducerPool, connections, register_group, use_global_limit
from kombu.transport import TRANSPORT_ALIASES

from mcp_app.conf import settings
from mcp_app.embedded.broker import Channel as FolderChannel
from mcp_app.lifecycle import task_messages
from mcp_app.lifecycle.task_messages import Addressed


class SilentBrokerError(Exception):
    """The broker did not take a message in time, or said no."""


class _Impatient(Producer):
    """Publishes once: kombu's mailbox would reconnect for ever."""

    def publish(self, *args: Any, **options: Any) -> Any:
        return super().publish(*args, **{**options, "retry": False})


class _ImpatientProducers(PoolGroup):
    def create(self, connection: Connection, limit: int | None) -> ProducerPool:
        return ProducerPool(connections[connection], Producer=_Impatient, limit=limit)


_producers = register_group(_ImpatientProducers(limit=use_global_limit))


@dataclass(frozen=True, slots=True)
class _OnlyProducer:
    """Stands where a mailbox expects a pool."""

    producer: Producer

    def acquire(self) -> AbstractContextManager[Producer]:
        return nullcontext(self.producer)


class Broker(Protocol):
    """What may stand in for the broker."""

    def send_task(self, name: str, task_id: str, queue: str) -> None:
        """One of what `send_tasks` sends."""

    def broadcast(self, command: str, arguments: dict[str, list[str]]) -> None:
        """As this module's."""


_instead: Broker | None = None


@contextmanager
def replaced_by(other: Broker) -> Iterator[None]:
    """While the block runs `other` is told everything in this process, and no broker anything."""
    global _instead
    before, _instead = _instead, other
    try:
        yield
    finally:
        _instead = before


def register() -> None:
    """Have `redis://` and `rediss://` mean `redis_transport`, but where they were given another meaning.

    Before this process's first connection to a broker.
    """
    for scheme in ("redis", "rediss"):
        if TRANSPORT_ALIASES.get(scheme) == "kombu.transport.redis:Transport":
            TRANSPORT_ALIASES[scheme] = "mcp_app.lifecycle.redis_transport:Transport"


def send_tasks(name: str, tasks: Sequence[Addressed], *, batch: str = "") -> None:
    """Put messages of a task, whose one argument is its id, into the broker: in one word, where it takes several.

    `batch`: the task whose arguments are the ids of several; where Celery counts tasks each is sent by itself.
    Raises SilentBrokerError: it may have taken some.
    """
    if _instead is not None:
        for task_ids, queue in tasks:
            for task_id in task_ids:
                _instead.send_task(name, task_id, queue)
        return
    app = current_app._get_current_object()
    if not batch or _counts_tasks(app):
        tasks = [Addressed([task_id], queue) for task_ids, queue in tasks for task_id in task_ids]
    _say(lambda producer: task_messages.send(app, producer, name, tasks, batch))


def broadcast(command: str, arguments: dict[str, list[str]]) -> None:
    """Give all workers a control command, without an answer. Raises SilentBrokerError."""
    if _instead is not None:
        _instead.broadcast(command, arguments)
        return

    def say(producer: Producer) -> None:
        mailbox = current_app.control.mailbox(producer.connection)
        mailbox.producer_pool = _OnlyProducer(producer)
        mailbox.abcast(command, arguments)

    _say(say)


def reach() -> None:
    """Have the broker answer; a folder, be written to. Raises SilentBrokerError."""
    if _instead is None:
        _say(_answered)


def ask(command: str, seconds: float, heard: Callable[[dict[str, Any]], None]) -> None:
    """Give all workers a control command, and hear for so many seconds what they answer: `{node: answer}`, as it comes.

    On a connection of its own, which waits no longer than the pool's. Raises SilentBrokerError.
    """
    with _new_connection() as connection:
        mailbox = current_app.control.mailbox(connection)
        mailbox.producer_pool = _OnlyProducer(_Impatient(connection))
        try:
            mailbox.multi_call(command, timeout=seconds, callback=heard)
        except (KombuError, OSError, *connection.connection_errors, *connection.channel_errors) as error:
            raise SilentBrokerError(str(error)[:500] or type(error).__name__) from error


def address() -> str:
    """Where the broker is, without its password."""
    with _new_connection() as connection:
        return str(connection.as_uri(mask="")).replace("://:@", "://").replace(":@", "@")


def _new_connection() -> Connection:
    app = current_app._get_current_object()
    made: Connection = _connection(app, settings.PUBLISH_TIMEOUT / 2).clone()
    return made


def _answered(producer: Producer) -> None:
    channel = producer.connection.default_channel
    if isinstance(channel, FolderChannel):
        channel.connection.folder.try_writing()
    elif hasattr(channel, "client"):  # Redis has no channels: opening one says nothing
        channel.client.ping()
    else:
        producer.connection.channel().close()


def _say(word: Callable[[Producer], object]) -> None:
    """Have `word` published; once more on a new connection where one kept from before turns out dead."""
    while True:
        kept = False
        try:
            with _pool().acquire(block=True, timeout=settings.PUBLISH_TIMEOUT / 2) as producer:
                connection = producer.connection
                kept = connection.connected
                _published(word, producer, connection)
                return
        except (KombuError, OSError) as error:
            if not kept:
                raise SilentBrokerError(str(error)[:500] or type(error).__name__) from error


def _published(word: Callable[[Producer], object], producer: Producer, connection: Connection) -> None:
    """Raises KombuError or OSError, the connection being dropped, whatever the transport's own errors are."""
    try:
        word(producer)
    except (KombuError, OSError):
        connection.collect()
        raise
    except (*connection.connection_errors, *connection.channel_errors) as error:
        connection.collect()
        raise KombuError(str(error)) from error


def _pool() -> ProducerPool:
    """The producers of the current Celery app's broker, looked up each time: kombu drops its pools at a fork.

    A dead connection may cost its own wait and that for its successor, so each wait gets half of the time.
    """
    app = current_app._get_current_object()
    pool: ProducerPool = _producers[_connection(app, settings.PUBLISH_TIMEOUT / 2)]
    return pool


@cache
def _counts_tasks(app: Celery) -> bool:
    """Whether a site has Celery count tasks, so that each is to be one: their rate, or those of a process."""
    conf = app.conf
    return bool(conf.task_annotations or conf.task_default_rate_limit or conf.worker_max_tasks_per_child)


@cache
def _connection(app: Celery, seconds: float) -> Connection:
    """What the pool's connections are cloned from; itself never connected. To ask Celery's configuration takes time."""
    limits = {
        "max_retries": 0,
        "socket_connect_timeout": seconds,  # redis
        "socket_timeout": seconds,
        "read_timeout": seconds,  # amqp
        "write_timeout": seconds,
        "confirm_publish": True,  # a line that is down takes what is written to it
    }
    connection: Connection = app.connection_for_write(connect_timeout=seconds, transport_options=limits)
    return connection
