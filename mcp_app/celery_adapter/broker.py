"""Send tasks and control commands to the broker, within `PUBLISH_TIMEOUT`.

The connections are separate from Celery's own pool. Those wait without a limit for a broker that is
silent (Redis) or gone (control commands), and a request of a client must not.

1. A message is sent once. If the broker does not take it, `SilentBrokerError` is raised and nothing
   is queued here: the row is the truth, and supervision publishes it again.
2. There is one exception. A pooled connection may have died since it was used, so if it fails, the
   message is sent once more on a new connection.
3. Two attempts must fit into `PUBLISH_TIMEOUT`, so each wait gets half of it.
"""

# mypy: allow-untyped-calls
# kombu types a part of itself

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol
from uuid import UUID

from celery import Celery, current_app
from celery.app import app_or_default
from kombu.connection import Connection
from kombu.exceptions import KombuError
from kombu.messaging import Producer
from kombu.pools import PoolGroup, ProducerPool, connections, register_group, use_global_limit
from kombu.serialization import registry

from mcp_app.conf import settings
from mcp_app.embedded.broker import Channel as FolderChannel

RUN_TASK: Final = "mcp_app.run"
"""The task that runs a tool. Its id is the id of the request, and also its only argument."""
CANCEL_COMMAND: Final = "mcp_cancel"
REVOKE_COMMAND: Final = "mcp_revoke"
PRESENCE_COMMAND: Final = "mcp_presence"


def content_type(serializer: str) -> str:
    """Return the content type of a serializer. Celery's settings contain either its name or its
    type.

    An unknown name is returned unchanged, because a process of a worker may know it.
    """
    return str(registry.name_to_type.get(serializer, serializer))


def request_id_of(message: Any) -> UUID | None:
    """Return the request id in a message of this app, or `None`."""
    name, task_id = message.headers.get("task"), message.headers.get("id")
    return parsed_id(task_id) if name == RUN_TASK else None


def parsed_id(text: Any) -> UUID | None:
    """Return the request id that `text` contains, or `None` if it is not the text of one."""
    try:
        found = UUID(text)
    except (AttributeError, TypeError, ValueError):
        return None
    return found if str(found) == text else None


class SilentBrokerError(Exception):
    """The broker did not take a message in time, or rejected it."""


class SingleAttemptProducer(Producer):
    """Publishes once. By default kombu's mailbox would reconnect for ever."""

    def publish(self, *args: Any, **options: Any) -> Any:
        return super().publish(*args, **{**options, "retry": False})


class SingleAttemptProducers(PoolGroup):
    def create(self, connection: Connection, limit: int | None) -> ProducerPool:
        return ProducerPool(connections[connection], Producer=SingleAttemptProducer, limit=limit)


_producers = register_group(SingleAttemptProducers(limit=use_global_limit))


@dataclass(frozen=True, slots=True)
class SingleProducerPool:
    """A pool with one producer, for kombu's mailbox."""

    producer: Producer

    def acquire(self) -> AbstractContextManager[Producer]:
        return nullcontext(self.producer)


class Broker(Protocol):
    """An object that can replace the broker in tests."""

    def send_task(self, name: str, task_id: str, queue: str) -> None:
        """Send one task, like `send_tasks`."""

    def broadcast(self, command: str, arguments: dict[str, list[str]]) -> None:
        """Send a control command, like `broadcast` of this module."""


_replacement: Broker | None = None


@contextmanager
def replaced_by(replacement: Broker) -> Iterator[None]:
    """Send everything to `replacement` in the block, and nothing to the broker."""
    global _replacement
    before, _replacement = _replacement, replacement
    try:
        yield
    finally:
        _replacement = before


def send_tasks(name: str, tasks: Sequence[tuple[str, str]]) -> None:
    """Send a message for each task, on one connection.

    `tasks` are pairs of a task id, which is also the only argument, and a queue. Raises
    `SilentBrokerError`; some of the messages may have been sent by then.
    """
    if _replacement is not None:
        for task_id, queue in tasks:
            _replacement.send_task(name, task_id, queue)
        return
    app = app_or_default()

    def send(producer: Producer) -> None:
        for task_id, queue in tasks:
            options = {"task_id": task_id, "queue": queue, "producer": producer}
            app.send_task(name, (task_id,), retry=False, ignore_result=True, **options)

    _publish(send)


def broadcast(command: str, arguments: dict[str, list[str]]) -> None:
    """Send a control command to all workers, without waiting for replies.

    Raises `SilentBrokerError`.
    """
    if _replacement is not None:
        _replacement.broadcast(command, arguments)
        return

    def send(producer: Producer) -> None:
        mailbox = current_app.control.mailbox(producer.connection)
        mailbox.producer_pool = SingleProducerPool(producer)
        mailbox.abcast(command, arguments)

    _publish(send)


def reach() -> None:
    """Check that the broker answers, or that its folder can be written.

    Raises `SilentBrokerError`.
    """
    if _replacement is None:
        _publish(_probe)


def ask(command: str, seconds: float, on_reply: Callable[[dict[str, Any]], None]) -> None:
    """Send a control command to all workers, and collect their replies for `seconds`.

    `on_reply` is called with each reply as it arrives: `{node: answer}`. A separate connection is
    used, which waits no longer than those of the pool. Raises `SilentBrokerError`.
    """
    with _new_connection() as connection:
        mailbox = current_app.control.mailbox(connection)
        mailbox.producer_pool = SingleProducerPool(SingleAttemptProducer(connection))
        try:
            mailbox.multi_call(command, timeout=seconds, callback=on_reply)
        except (KombuError, OSError, *connection.connection_errors, *connection.channel_errors) as error:
            raise SilentBrokerError(str(error)[:500] or type(error).__name__) from error


def address() -> str:
    """Return the broker's URL without its password."""
    with _new_connection() as connection:
        return str(connection.as_uri(mask="")).replace("://:@", "://").replace(":@", "@")


def _new_connection() -> Connection:
    app = app_or_default()
    made: Connection = _connection(app, settings.PUBLISH_TIMEOUT / 2).clone()
    return made


def _probe(producer: Producer) -> None:
    channel = producer.connection.default_channel
    if isinstance(channel, FolderChannel):
        channel.connection.folder.try_writing()
    elif hasattr(channel, "client"):  # opening a channel sends nothing to Redis
        channel.client.ping()
    else:
        producer.connection.channel().close()


def _publish(action: Callable[[Producer], object]) -> None:
    """Call `action` with a producer. If a pooled connection turns out to be dead, call it once
    more.

    Transports have error classes of their own. They are converted to `SilentBrokerError` like those
    of kombu, and the connection is dropped.
    """
    while True:
        was_connected = False
        try:
            with _pool().acquire(block=True, timeout=settings.PUBLISH_TIMEOUT / 2) as producer:
                connection = producer.connection
                was_connected = connection.connected
                try:
                    action(producer)
                except (KombuError, OSError):
                    connection.collect()
                    raise
                except (*connection.connection_errors, *connection.channel_errors) as error:
                    connection.collect()
                    raise KombuError(str(error)) from error
                return
        except (KombuError, OSError) as error:
            if not was_connected:
                raise SilentBrokerError(str(error)[:500] or type(error).__name__) from error


def _pool() -> ProducerPool:
    """Return the producers for the broker of the current Celery app.

    The pool is looked up for each use, because kombu drops its pools at a fork.
    """
    app = app_or_default()
    pool: ProducerPool = _producers[_connection(app, settings.PUBLISH_TIMEOUT / 2)]
    return pool


@cache
def _connection(app: Celery, seconds: float) -> Connection:
    """Return the connection that the pool clones. It never connects itself.

    It is cached, because reading Celery's configuration is slow.
    """
    limits = {
        "max_retries": 0,
        "socket_connect_timeout": seconds,  # redis
        "socket_timeout": seconds,
        "read_timeout": seconds,  # amqp
        "write_timeout": seconds,
        "confirm_publish": True,  # writing to a dead connection may seem to succeed
    }
    connection: Connection = app.connection_for_write(connect_timeout=seconds, transport_options=limits)
    return connection
