"""kombu's transport for Redis, at half its cost for each message.

One client for each channel: kombu makes a new one for each command, which costs as much as what it then says. And for
the message of a call Redis is not told that a worker has it and, some milliseconds later, that it has begun: what such
a record is good for when the worker dies, supervision does from the row, and sooner. Whatever is given back is written
down first, and goes kombu's way. Refuses to change anything for other tasks' messages.
"""
# mypy: allow-untyped-calls, disable-error-code="misc"
# kombu types a part of itself

from typing import Any

from kombu.transport import redis, virtual

from mcp_app.lifecycle.publishing import RUN_BATCH_TASK, RUN_TASK


class QoS(redis.QoS):
    """Messages that are not acknowledged yet: those of calls in memory alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unwritten: set[str] = set()

    def append(self, message: Any, delivery_tag: str) -> None:
        if message.headers.get("task") not in (RUN_TASK, RUN_BATCH_TASK):
            super().append(message, delivery_tag)
            return
        self._unwritten.add(delivery_tag)
        virtual.QoS.append(self, message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        if delivery_tag not in self._unwritten:
            super().ack(delivery_tag)
            return
        self._unwritten.discard(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self.write(delivery_tag)
        super().reject(delivery_tag, requeue=requeue)

    def restore_unacked(self, client: Any = None) -> None:
        for delivery_tag in list(self._unwritten):
            self.write(delivery_tag)
        super().restore_unacked(client)

    def write(self, delivery_tag: str) -> None:
        """Have Redis know of a message, which is to be given back."""
        if delivery_tag in self._unwritten:
            self._unwritten.discard(delivery_tag)
            super().append(self.get(delivery_tag), delivery_tag)


class Channel(redis.Channel):
    """Its client is as thread-safe as one that kombu makes: what it has of its own is the channel's pool."""

    QoS = QoS
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous)
        pool = self.pool  # another one after the connection was lost
        if self._kept is None or self._kept.connection_pool is not pool:
            self._kept = super()._create_client()
        return self._kept

    def _restore(self, message: Any, leftmost: bool = False) -> Any:
        if isinstance(self.qos, QoS):  # it is another where the site has switched acknowledgements off
            self.qos.write(message.delivery_tag)
        return super()._restore(message, leftmost)


class Transport(redis.Transport):
    Channel = Channel
