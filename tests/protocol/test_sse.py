import json

from mcp_app.protocol.jsonrpc import notification
from mcp_app.protocol.sse import KEEP_ALIVE, RESPONSE_HEADERS, event


def test_an_event_is_one_line_of_data_without_id_or_retry() -> None:
    message = notification("n", {"text": "a\r\nb\n\nid: 1\nretry: 5\u2028"})
    lines = event(message).decode().split("\n")
    assert lines[0] == "event: message"
    assert json.loads(lines[1].removeprefix("data: ")) == message
    assert lines[2:] == ["", ""]


def test_an_event_survives_lone_surrogates() -> None:
    assert b"\xef\xbf\xbd" in event({"a": "\ud800"})


def test_a_keep_alive_is_a_comment() -> None:
    assert KEEP_ALIVE.startswith(b":")
    assert KEEP_ALIVE.endswith(b"\n\n")


def test_a_stream_is_neither_buffered_nor_transformed() -> None:
    fields = dict(RESPONSE_HEADERS)
    assert fields[b"content-type"] == b"text/event-stream"
    assert fields[b"x-accel-buffering"] == b"no"
    assert fields[b"cache-control"] == b"no-cache, no-transform"
