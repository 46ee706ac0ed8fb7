"""The embedded broker: an asynchronous kombu transport whose queues are folders.

`register()` once per process, where the Celery app is made; then `broker_url = "mcpfs://"` and
`broker_transport_options = {"folder": "/path"}`. It is asynchronous, so Celery runs its worker on the event
loop and pool that it uses for Redis: a worker with all slots busy still reads control commands.

A message is gone once it was read: there is no acknowledgement to lose. Messages carry ids, and supervision
publishes again what nobody claimed. It refuses priorities and, being files, more than one machine.
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

from mcp_app.embedded.backlog import Backlog
from mcp_app.embedded.bindings import Binding, Bindings, Table
from mcp_app.embedded.folder import Folder
from mcp_app.embedded.readers import TRANSIENT_SECONDS, Readers
from mcp_app.embedded.watch import Watch

#: Seconds between two looks of a reader that has no event loop, as one waiting for a control reply.
POLL_SECONDS = 0.02

P = ParamSpec("P")
R = TypeVar("R")


def register() -> None:
    """Make `mcpfs://` known to kombu in this process; calling it again changes nothing."""
    TRANSPORT_ALIASES["mcpfs"] = "mcp_app.embedded.broker:Transport"


def _refusals_are_operational(method: Callable[P, R]) -> Callable[P, R]:
    """Let a disk that refuses look like any other broker that is down."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except OSError as error:
            raise OperationalError(f"The broker's folder cannot be used: {error}") from error

    return call


class Channel(virtual.Channel):
    """kombu's virtual channel on a `Folder`; `self.connection` is the `Transport`."""

    connection: "Transport"
    supports_fanout = True

    def __init__(self, connection: "Transport", **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._backlog = Backlog(connection.folder, self._parse)

    @_refusals_are_operational
    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self._put_data(queue, dumps(message).encode())

    @_refusals_are_operational
    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any) -> None:
        data = dumps(message).encode()
        for queue in {binding.queue for binding in self.get_table(exchange)}:
            self._put_data(queue, data)

    def _put_data(self, queue: str, data: bytes) -> None:
        control = queue.endswith(".pidbox")
        if control:
            self.connection.readers.prune()
        # a control queue without its folder has lost its reader: nobody waits for the message
        self.connection.folder.put(queue, data, create=not control)

    def drain_events(self, timeout: float | None = None, callback: Callable[..., None] | None = None) -> Any:
        if self._consumers and not self.qos.can_consume():
            # marked before the second look: another thread may acknowledge between the two
            self.connection.starved = True
        return super().drain_events(timeout=timeout, callback=callback)

    def basic_consume(self, queue: str, *args: Any, **kwargs: Any) -> None:
        super().basic_consume(queue, *args, **kwargs)
        if queue in self.connection.transient:
            self.connection.readers.hold(queue)
        self.connection.watch.add(queue)
        self.connection.watch.look_soon()

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
        self.connection.feed()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        super().basic_reject(delivery_tag, requeue)
        self.connection.feed()

    def basic_qos(self, *args: Any, **kwargs: Any) -> None:
        super().basic_qos(*args, **kwargs)
        self.connection.feed()

    def active_queues(self) -> set[str]:
        """The queues this channel consumes."""
        return set(self._active_queues)

    def restore_queue(self, queue: str) -> None:
        """Make a consumed queue again that somebody removed, with its bindings."""
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
        """The message in a file; raises whatever it may for one that kombu or Celery would stumble over."""
        payload: dict[str, Any] = loads(data)
        properties = payload["properties"]
        if not isinstance(payload["headers"], dict):
            raise TypeError("headers are no object")
        if not {"exchange", "routing_key"} <= properties["delivery_info"].keys():
            raise KeyError("delivery_info")
        self.Message(payload, channel=self)
        return payload

    @_refusals_are_operational
    def _new_queue(self, queue: str, auto_delete: bool = False, exclusive: bool = False, **kwargs: Any) -> None:
        if not (auto_delete or exclusive):
            self.connection.folder.create(queue)
            return
        if queue not in self.connection.transient:
            # what waits for a reader that died is not for its successor of the same name
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

    @_refusals_are_operational
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any) -> None:
        """Remove the queue for every process, not only the bindings that this connection made."""
        if if_empty and self._size(queue):
            return
        if queue in self.connection.transient and if_unused:
            if not self.connection.readers.remove_unread(queue):
                return
        else:
            self._delete(queue)
        self.state.queue_bindings_delete(queue)
        self.connection.transient.discard(queue)

    @_refusals_are_operational
    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self.connection.bindings.add(exchange, Binding(routing_key or "", pattern or "", queue))

    @_refusals_are_operational
    def queue_unbind(
        self, queue: str, exchange: str = "", routing_key: str = "", arguments: Any = None, **kwargs: Any
    ) -> None:
        self.state.binding_delete(queue, exchange, routing_key)
        meta = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
        self.connection.bindings.discard(exchange, Binding(*(part or "" for part in meta)))

    def get_table(self, exchange: str) -> Table:
        return self.connection.bindings.table(exchange)


class Transport(virtual.Transport):
    """A connection to one folder. Raises ValueError without the option `folder`."""

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
        self.watch = Watch(self.folder, look=self._look, tend=self._tend)
        #: The queues this connection declared that die with their reader.
        self.transient: set[str] = set()
        #: Whether a full prefetch window has kept messages waiting.
        self.starved = False
        _transports.add(self)

    @property
    def default_connection_params(self) -> dict[str, Any]:
        """None: a folder has no host, and kombu warns of every default it falls back to."""
        return {}

    @_refusals_are_operational
    def establish_connection(self) -> Any:
        self.folder.prepare()
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        self.watch.close()
        self.readers.release_all()

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        self.watch.start(loop, self._active_queues())

    def unregister_from_event_loop(self, connection: Any, loop: Any) -> None:
        self.watch.close()

    def driver_version(self) -> str:
        return str(kombu.__version__)

    def feed(self) -> None:
        """The prefetch window has moved: no file event will tell of the messages that waited for it."""
        if self.starved:
            self.starved = False
            self.watch.look_soon()

    def forget_parent(self) -> None:
        """In a forked child: what the parent watches and reads stays the parent's."""
        self.watch.abandon()
        self.readers.release_all()
        self.transient.clear()

    def _active_queues(self) -> set[str]:
        return set().union(*(channel.active_queues() for channel in self.channels))

    def _look(self) -> bool:
        """Deliver one message, each channel in its turn; False when there was none that may be delivered."""
        try:
            self.cycle.get(self._deliver, timeout=0)
        except Empty:
            return False
        return True

    def _tend(self) -> None:
        """Restore what was removed under this reader, and remove what died elsewhere."""
        for channel in list(self.channels):
            for queue in channel.active_queues():
                channel.restore_queue(queue)
        self.readers.prune()


_transports: "weakref.WeakSet[Transport]" = weakref.WeakSet()


def _forget_parents() -> None:
    for transport in list(_transports):
        transport.forget_parent()


os.register_at_fork(after_in_child=_forget_parents)
