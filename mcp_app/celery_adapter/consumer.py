"""Celery's consumer, made to survive unreadable messages and the loss of its broker.

It replaces Celery's consumer in every worker of the site, because it is not known which queues a
worker consumes before it connects. `configure` installs it, unless the site has configured its own.

1. Unreadable messages. Celery rejects some of them and dies of others, depending on which part is
   wrong. A broker that gets no acknowledgement then delivers the message to the next worker.
   `SteadyConsumer` rejects all of them and sends Celery's signal `task_rejected`. Messages for the
   site's own tasks are left to Celery.
2. A broken connection to Redis. kombu gives unacknowledged messages back on the connection that has
   just been dropped, and Celery ends on that error. Here it is logged; supervision publishes the
   messages again.
3. A silent broker. Without limits a worker's main process waits for ever in a read (Redis), or for
   minutes (RabbitMQ). It looks alive and runs nothing. So `configure` sets limits of
   SILENCE_SECONDS, where the site has set none.
4. Prefetching from the folder broker. Celery acknowledges a message when its task begins. Its
   smallest prefetch window is one message for each slot, so a busy worker would fetch a message
   although another worker has a free slot. For the folder broker a message is fetched only if a
   slot is free, as with `worker_disable_prefetch` on Redis.

The functions at the end of the module read `celery.worker.state`.
"""

# mypy: allow-untyped-calls
# Celery and kombu ship hardly any types

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from celery import signals
from celery.app.defaults import NAMESPACES
from celery.exceptions import WorkerTerminate
from celery.worker import state
from celery.worker.consumer import Consumer
from celery.worker.request import Request

from mcp_app.celery_adapter.broker import RUN_TASK, request_id_of
from mcp_app.embedded.broker import QoS

logger = logging.getLogger(__name__)

_COPY_ATTEMPTS: Final = 10
SILENCE_SECONDS: Final = 5
"""How long a broker may take to answer."""
TRANSPORT_LIMITS: Final = {
    "redis": {"socket_timeout": SILENCE_SECONDS, "health_check_interval": SILENCE_SECONDS},
    # Without these limits, closing a dead connection sends a frame and waits for the reply.
    "amqp": {"read_timeout": SILENCE_SECONDS, "write_timeout": SILENCE_SECONDS},
}
BROKER_KINDS: Final = {"redis": "redis", "rediss": "redis", "sentinel": "redis", "amqp": "amqp", "amqps": "amqp"}
DEFAULT_HEARTBEAT: Final = NAMESPACES["broker"]["heartbeat"].default
DEFAULT_CONSUMER: Final = NAMESPACES["worker"]["consumer"].default


def configure(app: Any) -> None:
    """Set the limits and the consumer in an app's configuration, before its worker connects."""
    kind = kind_of_broker(app)
    if kind is not None:
        app.conf.broker_transport_options = {**TRANSPORT_LIMITS[kind], **app.conf.broker_transport_options}
    if kind == "amqp" and app.conf.broker_heartbeat == DEFAULT_HEARTBEAT:
        app.conf.broker_heartbeat = 2 * SILENCE_SECONDS
    if app.conf.worker_consumer == DEFAULT_CONSUMER:
        app.conf.worker_consumer = SteadyConsumer


def kind_of_broker(app: Any) -> str | None:
    """Return `"redis"`, `"amqp"`, or `None` for other brokers."""
    urls = app.conf.broker_read_url or app.conf.broker_url or ""
    url = urls if isinstance(urls, str) else next(iter(urls), "")
    return BROKER_KINDS.get(urlsplit(url).scheme)


class SteadyConsumer(Consumer):
    """The consumer of every worker of the site (Celery's setting `worker_consumer`)."""

    _error_of_site_task: Exception | None = None
    """The exception that a message for one of the site's own tasks has raised."""

    def connection_for_read(self, heartbeat: Any = None) -> Any:
        """Connect. On Redis, drop texts that are no messages."""
        connection = super().connection_for_read(heartbeat)
        transport = connection.transport
        if transport.driver_type == "redis":
            transport.on_readable = partial(self._read_message, transport.on_readable)
        return connection

    def register_with_event_loop(self, hub: Any) -> None:
        """Register with the event loop of a new connection. The queues are consumed after that."""
        super().register_with_event_loop(hub)
        qos = getattr(self.task_consumer.channel, "qos", None)  # RabbitMQ's channels have none
        if isinstance(qos, QoS):
            qos.has_free_slot = self._has_free_slot
        slot_freed = getattr(self.pool, "slot_freed", None)  # a pool of `thread_pool`
        if slot_freed is not None:
            hub.add_reader(slot_freed.fileno(), slot_freed.clear)

    def _has_free_slot(self) -> bool:
        # Celery's own expression for the number of slots.
        limit = getattr(self.controller, "max_concurrency", None) or self.pool.num_processes
        return len(state.reserved_requests) < int(limit)

    def _read_message(self, read_message: Callable[..., object], *args: Any) -> None:
        # The package is optional, and kombu has imported it by now.
        from redis.exceptions import DataError

        try:
            read_message(*args)
        except Exception as error:
            if error is self._error_of_site_task or isinstance(error, Empty):
                raise
            # Celery counts a `DataError` as a channel's error. redis-py raises it for a message
            # whose delivery tag is no string.
            if self._is_connection_lost(error) and not isinstance(error, DataError):
                raise
            logger.exception("the broker delivered something that is not a message; it is dropped")

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], None]:
        """Return the function that is called with each message."""
        receive = super().create_task_handler(*args, **options)

        def on_task_received(message: Any) -> None:
            try:
                receive(message)
            except Exception as error:
                if self._is_connection_lost(error):
                    raise
                if self._is_for_site(message):
                    self._error_of_site_task = error
                    raise
                self._reject(message, error)

        return on_task_received

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Reject a message from which Celery could make no task."""
        if self._is_for_site(message):
            super().on_invalid_task(body, message, exc)
        else:
            self._reject(message, exc)

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Reject a message whose body cannot be decoded.

        Celery's own method fails without a body.
        """
        if self._is_for_site(message):
            super().on_decode_error(message, exc)
        elif "task" in message.headers:
            self._reject(message, exc)
        else:  # a control command, which must not be rejected, or nothing that Celery sends
            logger.error("a message without a task name could not be decoded and is dropped: %.300r", exc)
            message.ack_log_error(logger, self.connection_errors)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Drop the connection. Supervision publishes unacknowledged messages again."""
        try:
            super().on_connection_error_after_connected(exc)
        except AttributeError as error:
            # kombu gives messages back on the connection that it has just dropped.
            logger.warning(
                "fetched messages could not be returned to the broker; supervision will publish them again: %s", error
            )

    def _is_connection_lost(self, error: Exception) -> bool:
        """Return whether Celery must connect again.

        kombu's Redis transport counts every `KeyError` as a lost connection, also one from a bad
        message.
        """
        return isinstance(error, self.connection_errors + self.channel_errors) and not isinstance(error, KeyError)

    def _is_for_site(self, message: Any) -> bool:
        """Return whether a message is for one of the site's own tasks."""
        name = message.headers.get("task")
        return isinstance(name, str) and name in self.app.tasks and name != RUN_TASK

    def _reject(self, message: Any, error: Exception) -> None:
        request_id = request_id_of(message)
        which = f"message for request {request_id}" if request_id else f"message {message.headers.get('id')!r:.100}"
        logger.error("a %s cannot be read and is rejected: %s: %.300s", which, type(error).__name__, error)
        if not message.acknowledged:
            message.reject_log_error(logger, self.connection_errors)
        signals.task_rejected.send(sender=self, message=message, exc=error)


def active() -> list[Request]:
    """Return the tasks that run in this worker, of this app and of the site."""
    for _ in range(_COPY_ATTEMPTS):
        with suppress(RuntimeError):  # its own thread has just changed the set
            return list(state.active_requests)
    return []


def holds_work() -> bool:
    """Return whether the worker has received a task that has not ended."""
    return bool(state.reserved_requests)


def revoke(request_ids: Iterable[UUID]) -> None:
    """Make this worker drop the messages of these requests, those that it has fetched and those to come.

    Call it in the worker's event loop.
    """
    state.revoked.update(list(map(str, request_ids)))


def is_told_to_stop() -> bool:
    """Return whether the worker must end, by a warm or a cold shutdown."""
    return _is_set(state.should_stop) or is_told_to_stop_cold()


def is_told_to_stop_cold() -> bool:
    """Return whether the worker must end without waiting for running tasks."""
    return _is_set(state.should_terminate)


def _is_set(status: int | bool | None) -> bool:
    """Return whether one of Celery's flags is set. It holds an exit status, which may be 0."""
    return status is not None and status is not False


def ending(worker: Any, status: int) -> WorkerTerminate:
    """Return the exception that ends a worker with this exit status.

    Celery does not keep the status of the exception, so it is set on the worker as well.
    """
    worker.exitcode = status
    return WorkerTerminate(status)
