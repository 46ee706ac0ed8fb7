"""Behaviour of kombu's virtual transport, Daphne and Twisted that is not documented and that `mcp_app` relies on.

`docs/project/upstream.md` lists these names.
"""

import asyncio
from collections.abc import Iterator
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest
from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.transport import virtual
from twisted.internet import reactor
from twisted.internet.abstract import FileDescriptor
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.tcp import Port
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.web.http import HTTPChannel

from mcp_app.embedded import broker, server, server_connections

REQUEST = b"POST /mcp HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbody"

OVERRIDDEN = [
    (broker.QoS, "can_consume"),
    (broker.Channel, "basic_ack basic_cancel basic_consume basic_qos basic_reject drain_events"),
    (broker.Channel, "get_table queue_delete queue_unbind supports_fanout"),
    (broker.Channel, "_delete _get _has_queue _new_queue _purge _put _size"),
    (broker.Transport, "close_connection default_connection_params driver_version establish_connection"),
    (broker.Transport, "implements polling_interval register_with_event_loop unregister_from_event_loop"),
    (server.EmbeddedServer, "create_application handle_reply kill_all_applications run stop"),
    (server.EmbeddedFactory, "buildProtocol protocol"),
    (server.EmbeddedRequest, "connectionLost gotLength handleContentChunk handle_exception process"),
    (server.EmbeddedRequest, "requestReceived"),
    (server_connections.EmbeddedChannel, "connectionLost connectionMade dataReceived lineReceived pauseProducing"),
    (server_connections.EmbeddedChannel, "rawDataReceived resumeProducing"),
    (server_connections.EmbeddedChannel, "allContentReceived allHeadersReceived requestDone"),
]


@pytest.mark.parametrize(("kind", "names"), OVERRIDDEN)
def test_what_is_overridden_is_a_method_of_their_own(kind: type, names: str) -> None:
    """If upstream renames a method, nothing calls its override any more."""
    bases = [base for base in kind.__mro__ if base.__module__.split(".")[0] in ("daphne", "kombu", "twisted")]
    found = [name for name in names.split() if name in vars(kind) and any(name in vars(base) for base in bases)]
    assert found == names.split()


class Channel(virtual.Channel):
    """A channel in memory that records kombu's calls."""

    supports_fanout = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.messages: list[Any] = []
        self.asked: list[tuple[Any, ...]] = []

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        self.messages.append(message)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        if not self.messages:
            raise virtual.base.Empty
        return self.messages.pop(0)

    def _put_fanout(self, exchange: str, message: Any, routing_key: str, **kwargs: Any) -> None:
        self.asked.append(("_put_fanout", exchange, routing_key))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self.asked.append(("_queue_bind", exchange, routing_key, queue))

    def _purge(self, queue: str) -> int:
        return 0


class Transport(virtual.Transport):
    """A transport with such channels."""

    Channel = Channel

    def driver_version(self) -> str:
        return "1"


@pytest.fixture
def channel() -> Iterator[Channel]:
    with Connection(transport=Transport) as connection:
        yield connection.default_channel


def test_a_channel_knows_its_consumers(channel: Any) -> None:
    """`_consumers` has tags, `_tag_to_queue` maps a tag to its queue, and `_active_queues` has the queues."""
    assert not channel._consumers
    consumer = Consumer(channel, [Queue("calls")])
    consumer.consume()
    [tag] = channel._consumers
    assert channel._tag_to_queue == {tag: "calls"}
    assert list(channel._active_queues) == ["calls"]
    consumer.cancel()
    assert not channel._consumers
    assert not channel._tag_to_queue
    assert not channel._active_queues


def test_a_fanout_exchange_is_the_channels_own(channel: Any) -> None:
    """kombu passes bindings to `_queue_bind` of a channel with `supports_fanout`, and publishes with `_put_fanout`."""
    exchange = Exchange("pidbox", type="fanout")
    Queue("replies", exchange, routing_key="key")(channel).declare()
    assert ("_queue_bind", "pidbox", "key", "replies") in channel.asked
    Producer(channel, exchange).publish({"method": "ping"}, routing_key="key")
    assert channel.asked[-1] == ("_put_fanout", "pidbox", "key")
    assert not channel.messages


def test_a_message_that_was_read_is_delivered(channel: Any) -> None:
    """`Transport.cycle.get` reads a message of any consumed queue, and `_deliver` passes it to the consumer."""
    received: list[Any] = []
    queue = Queue("calls", Exchange("calls"), routing_key="calls")
    consumer = Consumer(channel, [queue], callbacks=[lambda body, message: received.append(body)], no_ack=True)
    consumer.consume()
    Producer(channel, queue.exchange, "calls").publish({"id": 1})
    transport = channel.connection
    transport.cycle.get(transport._deliver, timeout=0)
    assert received == [{"id": 1}]
    with pytest.raises(virtual.base.Empty):
        transport.cycle.get(transport._deliver, timeout=0)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Never called, because no reactor runs here."""


class Request(WebRequest):
    """Daphne's request, which records the methods that it runs."""

    passed: list[str]

    def gotLength(self, length: int | None) -> None:
        self.passed = ["gotLength"]
        super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:
        self.passed.append("handleContentChunk")
        super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self.passed.append("requestReceived")
        super().requestReceived(command, path, version)

    def process(self) -> None:
        """Do nothing, because there is no event loop."""
        self.passed.append("process")


@pytest.fixture
def http() -> Any:
    """Return a connection to a Daphne server, on a transport in memory."""
    server = Server(application, ["127.0.0.1:0"])
    server.connections = {}  # `run` sets it
    factory = HTTPFactory(server)
    factory.protocol = HTTPChannel
    made: Any = factory.buildProtocol(SimpleNamespace(host="127.0.0.1", port=1))
    made.requestFactory = Request
    transport: Any = StringTransportWithDisconnection()
    transport.protocol = made
    made.makeConnection(transport)
    yield made
    made.setTimeout(None)
    if transport.connected:
        transport.loseConnection()


def test_a_request_passes_through_the_methods_that_are_extended(http: Any) -> None:
    """HTTPFactory's connections create WebRequest objects, which know the Server and its limits."""
    http.dataReceived(REQUEST)
    [request] = http.requests
    assert request.passed == ["gotLength", "handleContentChunk", "requestReceived", "process"]
    assert isinstance(request.server, Server)
    assert request.content.read() == b"body"
    assert http.factory.server is request.server


def test_a_request_knows_whether_its_response_has_started(http: Any) -> None:
    """`WebRequest._response_started`."""
    http.dataReceived(REQUEST)
    [request] = http.requests
    assert not request._response_started
    request.handle_reply({"type": "http.response.start", "status": 200, "headers": []})
    assert request._response_started


def test_what_comes_behind_a_running_request_is_buffered(http: Any) -> None:
    """HTTPChannel._handlingRequest is set while a request runs. Later bytes wait in _dataBuffer."""
    assert not http._handlingRequest
    assert http._dataBuffer == []
    http.dataReceived(REQUEST)
    assert http._handlingRequest
    http.dataReceived(b"GET /")
    http.dataReceived(b"mcp")
    assert b"".join(http._dataBuffer) == b"GET /mcp"


def test_the_server_has_what_its_websocket_factory_is_made_of() -> None:
    """The server has the attributes from which Server.run creates a WebSocketFactory."""
    server = Server(application, ["127.0.0.1:0"])
    factory = WebSocketFactory(server, server=server.server_name)
    factory.setProtocolOptions(
        autoPingTimeout=server.ping_timeout,
        allowNullOrigin=True,
        openHandshakeTimeout=server.websocket_handshake_timeout,
    )


@pytest.mark.skipif(version("daphne") < "4.2", reason="Daphne before 4.2 has no limits")
def test_the_server_has_the_limits_of_websocket_messages() -> None:
    """Daphne's limits of a message and of a frame are attributes of the server."""
    server = Server(application, ["127.0.0.1:0"])
    WebSocketFactory(server, server=server.server_name).setProtocolOptions(
        maxMessagePayloadSize=server.websocket_max_message_size,
        maxFramePayloadSize=server.websocket_max_frame_size,
    )


def test_the_reactor_has_an_asyncio_event_loop() -> None:
    """Daphne installs AsyncioSelectorReactor. Its _asyncioEventloop handles signals."""
    assert isinstance(reactor, AsyncioSelectorReactor)
    assert isinstance(reactor._asyncioEventloop, asyncio.AbstractEventLoop)


def test_a_port_asks_how_many_connections_it_accepts_at_once() -> None:
    """Port.numberAccepts, which Twisted sets and reads when connections wait."""
    assert "numberAccepts" in Port.doRead.__code__.co_names


def test_what_was_written_and_not_sent_is_in_two_buffers() -> None:
    """The unsent bytes are FileDescriptor.dataBuffer from its offset on, and _tempDataLen more bytes."""

    class Slow(FileDescriptor):
        connected = True

        def writeSomeData(self, data: bytes) -> int:
            return 2

    slow: Any = Slow(reactor=SimpleNamespace(addWriter=lambda it: None, removeWriter=lambda it: None))
    slow.write(b"1234")
    assert (len(slow.dataBuffer) - slow.offset, slow._tempDataLen) == (0, 4)
    slow.doWrite()
    slow.write(b"56")
    assert (len(slow.dataBuffer) - slow.offset, slow._tempDataLen) == (2, 2)
