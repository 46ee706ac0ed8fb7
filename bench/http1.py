"""Reads HTTP/1.1 responses and event streams: bytes in, messages out. Does no I/O.

It does not validate its input, because it only measures servers that are known to be correct.
"""

import json
from typing import Any

HEAD_END = b"\r\n\r\n"


class ResponseReader:
    """Reads one response from bytes as they arrive. `feed` returns the part of the body that became readable."""

    def __init__(self) -> None:
        self.status = 0
        self.is_event_stream = False
        self.keeps_alive = True
        self.complete = False
        self._buffer = bytearray()
        self._left = 0
        self._step = self._read_head

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        body = bytearray()
        while not self.complete and self._step(body):
            pass
        return bytes(body)

    def _read_head(self, body: bytearray) -> bool:
        end = self._buffer.find(HEAD_END)
        if end < 0:
            return False
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + len(HEAD_END)]
        self.status = int(lines[0].split()[1])
        if self.status < 200:
            return True
        fields = {
            name.strip().lower(): value.strip().lower() for name, _, value in (x.partition(":") for x in lines[1:])
        }
        self.is_event_stream = fields.get("content-type", "").startswith("text/event-stream")
        self.keeps_alive = fields.get("connection") != "close"
        if fields.get("transfer-encoding") == "chunked":
            self._step = self._read_chunk_size
        elif "content-length" in fields:
            self._left = int(fields["content-length"])
            self._step = self._read_sized
        else:
            self.keeps_alive = False
            self._step = self._read_rest
        return True

    def _read_sized(self, body: bytearray) -> bool:
        self._take(body)
        self.complete = not self._left
        return False

    def _read_chunk_size(self, body: bytearray) -> bool:
        line, end, _ = self._buffer.partition(b"\r\n")
        if not end:
            return False
        self._left = int(line.split(b";")[0], 16)
        del self._buffer[: len(line) + 2]
        self._step = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self, body: bytearray) -> bool:
        self._take(body)
        if self._left:
            return False
        self._step = self._read_chunk_end
        return True

    def _read_chunk_end(self, body: bytearray) -> bool:
        if len(self._buffer) < 2:
            return False
        del self._buffer[:2]
        self._step = self._read_chunk_size
        return True

    def _read_trailer(self, body: bytearray) -> bool:
        line, end, _ = self._buffer.partition(b"\r\n")
        if not end:
            return False
        del self._buffer[: len(line) + 2]
        self.complete = not line
        return True

    def _read_rest(self, body: bytearray) -> bool:
        body += self._buffer
        self._buffer.clear()
        return False

    def _take(self, body: bytearray) -> None:
        part = self._buffer[: self._left]
        del self._buffer[: self._left]
        self._left -= len(part)
        body += part


class EventReader:
    """Reads the JSON messages of a `text/event-stream` from bytes as they arrive. Comments are skipped."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        *events, self._buffer = (self._buffer + data).replace(b"\r\n", b"\n").split(b"\n\n")
        return [message for event in events if (message := _message(event)) is not None]


def _message(event: bytes) -> dict[str, Any] | None:
    data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
    message: dict[str, Any] | None = json.loads(data) if data else None
    return message
