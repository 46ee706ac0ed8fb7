"""An HTTP/2 client without TLS, for the one server that supports it: several requests at once on one connection."""

import json
import socket
from collections.abc import Mapping
from typing import Any

from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded

from tests.support.site import wire
from tests.support.site.wire import JSON
from tests.support.waiting import PATIENCE


class HTTP2Connection:
    """One connection. Methods name a stream by its number."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._h2 = H2Connection()
        self._h2.initiate_connection()
        self._received: dict[int, bytearray] = {}
        self._ended: set[int] = set()

    def post(self, body: Mapping[str, Any]) -> int:
        """Send one message and return its stream."""
        stream: int = self._h2.get_next_available_stream_id()
        fields = {":method": "POST", ":path": "/mcp", ":scheme": "http", ":authority": "localhost"}
        own = [(name.lower(), value) for name, value in wire.own_headers(body, JSON).items()]
        self._h2.send_headers(stream, [*fields.items(), *own])
        self._h2.send_data(stream, json.dumps(body).encode(), end_stream=True)
        self._received[stream] = bytearray()
        self._flush()
        return stream

    def reset(self, stream: int) -> None:
        """Cancel one request, and keep the connection."""
        self._h2.reset_stream(stream)
        self._flush()

    def result(self, stream: int) -> dict[str, Any]:
        """Read a stream to its end and return the result in its JSON body."""
        while stream not in self._ended:
            data = self._socket.recv(65536)
            assert data, "the connection has ended"
            for event in self._h2.receive_data(data):
                if isinstance(event, DataReceived):
                    self._received[event.stream_id] += event.data
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, StreamEnded):
                    self._ended.add(event.stream_id)
                elif isinstance(event, ResponseReceived):
                    assert dict(event.headers)[b":status"] == b"200"
            self._flush()
        result: dict[str, Any] = json.loads(self._received[stream])["result"]
        return result

    def close(self) -> None:
        self._socket.close()

    def _flush(self) -> None:
        self._socket.sendall(self._h2.data_to_send())
