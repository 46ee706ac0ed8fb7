"""The embedded broker: an asynchronous kombu transport whose queues are folders.

Call `register()` once in each process, where the Celery app is made. Then set `broker_url =
"mcpfs://"` and `broker_transport_options = {"folder": "/path"}`.

Theory of operation
-------------------

The transport subclasses kombu's virtual transport, which implements AMQP's model above a simple
store. The store is in four modules, which do not know kombu:

    Transport (a connection)           Channel
      folder    message files            _put, _get    write and take messages
      bindings  exchange -> queues       _queue_bind   change the binding tables
      readers   locks of readers         queue_delete  also for other processes
      watch     inotify or polling       basic_*       reader locks, watches

1. A message is a file in its queue's folder `new/`. It is taken by a rename and removed before it
   is delivered, so it is never delivered twice.
2. Therefore there is no acknowledgement to lose: after a crash the message is gone. Messages only
   carry ids of requests, and supervision publishes requests again that no worker has claimed.
3. The transport is asynchronous: it runs in Celery's event loop, as Redis does. So a worker whose
   slots are all busy still reads control commands.
4. In the event loop, `FolderWatch` calls `_deliver_one` when inotify reports a file, and once a
   second in any case, because an event can be lost.
5. Delivery stops while kombu's prefetch window is full or the consumer has no free slot. No file
   event reports that this is over. So `has_waiting_messages` is set, and an acknowledgement, or the
   next turn of the loop, triggers a check.
6. Control, reply and event queues are transient. A reader holds a lock on such a queue, and a queue
   without a lock is removed (`readers`).
7. A forked process closes its copies of the descriptors. Its parent keeps the watches and locks.
8. A folder that cannot be written looks to Celery like a broker that is down (`OperationalError`).

There are no priorities, and all processes must be on one host.
"""

# kombu ships py.typed but hardly any annotations
# mypy: allow-untyped-calls

import functools
import os
import weakref
from collections.abc import Callable
from queue import Empty
from typing import Any, ParamSpec, TypeVar

import kombu
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.utils.json import dumps, loads

from mcp_app.embedded.bindings import Binding, Bindings, Table
from mcp_app.embedded.folder import Backlog, Folder
from mcp_app.embedded.readers import TRANSIENT_SECONDS, Readers
from mcp_app.embedded.watch import FolderWatch

#: Seconds between two checks of a reader without an event loop, such as one that waits for a reply.
POLL_SECONDS = 0.02

P = ParamSpec("P")
R = TypeVar("R")


def register() -> None:
    """Make `mcpfs://` known to kombu in this process. May be called again."""
    TRANSPORT_ALIASES["mcpfs"] = "mcp_app.embedded.broker:Transport"


def _raises_operational_error(method: Callable[P, R]) -> Callable[P, R]:
    """Convert an `OSError` to `OperationalError`, which Celery expects of a broker that is down."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except OSError as error:
            raise OperationalError(f"The broker's folder cannot be used: {error}") from error

    return call


class QoS(virtual.QoS):
    """kombu's prefetch window, which also asks the consumer for a free slot."""

    has_free_slot: Callable[[], bool] = staticmethod(lambda: True)
    """Whether the consumer would begin another message at once."""

    def can_consume(self) -> bool:
        return self.has_free_slot() and bool(super().can_consume())


class Channel(virtual.Channel):
    """kombu's virtual channel above a `Folder`. `self.connection` is the `Transport`."""

    QoS = QoS
    connection: "Transport"
    supports_fanout = True

    def __init__(self, connection: "Transport", **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._backlog = Backlog(connection.folder, self._parse)

    @_raises_operational_error
    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self._put_data(queue, dumps(message).encode())

    @_raises_operational_error
    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any) -> None:
        data = dumps(message).encode()
        for queue in {binding.queue for binding in self.get_table(exchange)}:
            self._put_data(queue, data)

    def _put_data(self, queue: str, data: bytes) -> None:
        control = queue.endswith(".pidbox")
        if control:
            self.connection.readers.prune()
        # If the folder of a control queue is gone, so is its reader: drop the message.
        self.connection.folder.put(queue, data, create=not control)

    def drain_events(self, timeout: float | None = None, callback: Callable[..., None] | None = None) -> Any:
        if self._consumers and not self.qos.can_consume():
            # Set this before `drain_events` checks again: another thread may acknowledge meanwhile.
            self.connection.has_waiting_messages = True
        return super().drain_events(timeout=timeout, callback=callback)

    def basic_consume(self, queue: str, *args: Any, **kwargs: Any) -> None:
        super().basic_consume(queue, *args, **kwargs)
        if queue in self.connection.transient:
            self.connection.readers.hold(queue)
        self.connection.watch.add(queue)
        self.connection.watch.check_soon()

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is None:
            return
        self._backlog.forget(queue)
        self.connection.watch.discard(queue)
        if queue in self.connection.transient:
            self.connection.readers.release(queue)
            self.queue_delete(queue, if_unused=True)

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        super().basic_ack(delivery_tag, multiple)
        self.connection.deliver_waiting()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        super().basic_reject(delivery_tag, requeue)
        self.connection.deliver_waiting()

    def basic_qos(self, *args: Any, **kwargs: Any) -> None:
        super().basic_qos(*args, **kwargs)
        self.connection.deliver_waiting()

    def active_queues(self) -> set[str]:
        """Return the queues that this channel consumes."""
        return set(self._active_queues)

    def restore_queue(self, queue: str) -> None:
        """Create a consumed queue again, with its bindings, if another process has removed it."""
        if queue in self.connection.transient:
            if self.connection.readers.holds(queue):
                return
            self.connection.readers.hold(queue)
        elif self.connection.folder.exists(queue):
            return
        self._new_queue(queue)
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            meta = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
            self._queue_bind(exchange, *meta)
        self.connection.watch.add(queue)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        max_age = TRANSIENT_SECONDS if queue in self.connection.transient else None
        if (message := self._backlog.take(queue, max_age)) is None:
            raise Empty
        return message

    def _parse(self, data: bytes) -> dict[str, Any]:
        """Return the message in a file.

        Raises any exception if kombu or Celery could not handle the message.
        """
        payload: dict[str, Any] = loads(data)
        properties = payload["properties"]
        if not isinstance(payload["headers"], dict):
            raise TypeError("headers must be an object")
        if not {"exchange", "routing_key"} <= properties["delivery_info"].keys():
            raise KeyError("delivery_info")
        if not isinstance(properties["delivery_tag"], str):
            raise TypeError("delivery_tag must be a string")
        self.Message(payload, channel=self)
        return payload

    @_raises_operational_error
    def _new_queue(self, queue: str, auto_delete: bool = False, exclusive: bool = False, **kwargs: Any) -> None:
        if not (auto_delete or exclusive):
            self.connection.folder.create(queue)
            return
        if queue not in self.connection.transient:
            # Messages for a dead reader must not reach a new reader of the same name.
            self.connection.readers.remove_unread(queue)
            self.connection.transient.add(queue)
        self.connection.readers.declare(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self.connection.folder.exists(queue)

    def _size(self, queue: str) -> int:
        return len(self.connection.folder.names(queue))

    def _purge(self, queue: str) -> int:
        return self.connection.folder.purge(queue)

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        self.connection.folder.remove(self.connection.folder.path(queue))
        self.connection.bindings.forget(queue)

    @_raises_operational_error
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any) -> None:
        """Remove the queue for all processes, with bindings that other connections have made."""
        if if_empty and self._size(queue):
            return
        if queue in self.connection.transient and if_unused:
            if not self.connection.readers.remove_unread(queue):
                return
        else:
            self._delete(queue)
        self.state.queue_bindings_delete(queue)
        self.connection.transient.discard(queue)

    @_raises_operational_error
    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self.connection.bindings.add(exchange, Binding(routing_key or "", pattern or "", queue))

    @_raises_operational_error
    def queue_unbind(
        self, queue: str, exchange: str = "", routing_key: str = "", arguments: Any = None, **kwargs: Any
    ) -> None:
        self.state.binding_delete(queue, exchange, routing_key)
        meta = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
        self.connection.bindings.discard(exchange, Binding(*(part or "" for part in meta)))

    def get_table(self, exchange: str) -> Table:
        return self.connection.bindings.table(exchange)


class Transport(virtual.Transport):
    """A connection to one folder. Raises `ValueError` if the option `folder` is missing."""

    Channel = Channel
    cycle: Any
    driver_type = "filesystem"
    driver_name = "mcpfs"
    polling_interval = POLL_SECONDS
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset({"direct", "topic", "fanout"})
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        root = client.transport_options.get("folder")
        if not root:
            raise ValueError('mcpfs:// needs a folder: set broker_transport_options = {"folder": "/path"}')
        self.folder = Folder(os.path.abspath(root))
        self.bindings = Bindings(self.folder)
        self.readers = Readers(self.folder, self.bindings)
        self.watch = FolderWatch(self.folder, deliver=self._deliver_one, maintain=self._maintain)
        #: The transient queues that this connection has declared.
        self.transient: set[str] = set()
        #: Whether messages may wait because the prefetch window was full or no slot was free.
        self.has_waiting_messages = False
        self._loop: Any = None
        _transports.add(self)

    @property
    def default_connection_params(self) -> dict[str, Any]:
        """Empty: a folder has no host, and kombu warns of each default that it uses."""
        return {}

    @_raises_operational_error
    def establish_connection(self) -> Any:
        self.folder.prepare()
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        self._leave_loop()
        self.watch.close()
        self.readers.release_all()

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        self._leave_loop()
        self._loop = loop
        loop.on_tick.add(self._on_tick)
        self.watch.start(loop, self._active_queues())

    def unregister_from_event_loop(self, connection: Any, loop: Any) -> None:
        self._leave_loop()
        self.watch.close()

    def driver_version(self) -> str:
        return str(kombu.__version__)

    def deliver_waiting(self) -> None:
        """Check for messages that waited for the prefetch window or a free slot."""
        if self.has_waiting_messages:
            self.has_waiting_messages = False
            self.watch.check_soon()

    def _on_tick(self) -> None:
        """Deliver messages that waited for a free slot, for which there is no file event."""
        if self.has_waiting_messages and all(channel.qos.can_consume() for channel in self.channels):
            self.deliver_waiting()

    def _leave_loop(self) -> None:
        if self._loop is not None:
            self._loop.on_tick.discard(self._on_tick)
            self._loop = None

    def abandon_after_fork(self) -> None:
        """Leave watches and reader locks to the parent. Called in a forked process."""
        self.watch.abandon()
        self.readers.release_all()
        self.transient.clear()

    def _active_queues(self) -> set[str]:
        return set().union(*(channel.active_queues() for channel in self.channels))

    def _deliver_one(self) -> bool:
        """Deliver one message, by turns of the channels.

        Return `False` if there is none to deliver.
        """
        try:
            self.cycle.get(self._deliver, timeout=0)
        except Empty:
            return False
        return True

    def _maintain(self) -> None:
        """Restore this connection's queues, and remove queues without a reader."""
        for channel in list(self.channels):
            for queue in channel.active_queues():
                channel.restore_queue(queue)
        self.readers.prune()


_transports: "weakref.WeakSet[Transport]" = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for transport in list(_transports):
        transport.abandon_after_fork()


os.register_at_fork(after_in_child=_abandon_after_fork)
