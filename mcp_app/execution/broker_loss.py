"""How a worker outlives the loss of its broker, and notices it where the network tells neither end.

Without limits its main process waits for ever in a read (Redis), or for minutes (RabbitMQ): it looks alive and runs
nothing. For every worker of the site: which queues one consumes is not known before it connects. Refuses to change what
the site itself has set.
"""

import logging
from typing import Any, Final
from urllib.parse import urlsplit

from celery.app.defaults import NAMESPACES
from celery.worker.consumer import Consumer

logger = logging.getLogger(__name__)

SILENCE: Final = 5
"""Seconds for which a broker may leave a question unanswered."""
LIMITS: Final = {
    "redis": {"socket_timeout": SILENCE, "health_check_interval": SILENCE},
    # Without them a connection that is given up is closed by a word of farewell, whose answer is waited for.
    "amqp": {"read_timeout": SILENCE, "write_timeout": SILENCE},
}
KINDS: Final = {"redis": "redis", "rediss": "redis", "sentinel": "redis", "amqp": "amqp", "amqps": "amqp"}
HEARTBEAT: Final = NAMESPACES["broker"]["heartbeat"].default
CONSUMER: Final = NAMESPACES["worker"]["consumer"].default


class SteadyConsumer(Consumer):  # type: ignore[misc]  # Celery ships no types
    """Celery's consumer, which a broken connection to Redis does not end."""

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Drop the connection. What it held and did not acknowledge is published again by supervision."""
        try:
            super().on_connection_error_after_connected(exc)
        except AttributeError as error:
            # kombu gives messages back on the connection that it has just dropped; Celery takes that for its own end.
            logger.warning("messages that were fetched and not begun are left to be published again: %s", error)


def prepare(app: Any) -> None:
    """Set the limits, and the consumer, in `app`'s configuration. Before its worker connects."""
    urls = app.conf.broker_read_url or app.conf.broker_url or ""
    url = urls if isinstance(urls, str) else next(iter(urls), "")
    kind = KINDS.get(urlsplit(url).scheme)
    if kind is not None:
        app.conf.broker_transport_options = {**LIMITS[kind], **app.conf.broker_transport_options}
    if kind == "amqp" and app.conf.broker_heartbeat == HEARTBEAT:
        app.conf.broker_heartbeat = 2 * SILENCE
    if app.conf.worker_consumer == CONSUMER:
        app.conf.worker_consumer = SteadyConsumer
