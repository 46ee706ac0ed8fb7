"""Events with ids: one line of data, and ids for this server only (transports "Resumability and
Redelivery").
"""

from uuid import UUID

import pytest

from mcp_app.protocol import sse
from mcp_app.protocol import sse as legacy_sse
from mcp_app.protocol.sse import EventId, read_event_id

CALL = EventId(UUID(int=7), 3)


def test_ids_name_their_stream_and_are_read_back() -> None:
    for event_id in (CALL, EventId(None, 0), EventId(UUID(int=2**128 - 1), legacy_sse.MAX_SEQ)):
        assert read_event_id(str(event_id)) == event_id


@pytest.mark.parametrize(
    "text",
    ["", "x", "listen", "listen.", "listen.-1", "listen.1 ", "7.1", f"{'g' * 32}.1", f"listen.{2**63}", "listen.١"],
)
def test_what_this_server_did_not_issue_is_no_id(text: str) -> None:
    assert read_event_id(text) is None


def test_frames() -> None:
    assert sse.event({"a": "b\nc"}, EventId(None, 2)) == b'id: listen.2\nevent: message\ndata: {"a":"b\\nc"}\n\n'
    assert legacy_sse.prime(EventId(None, 0), 500) == b"id: listen.0\nretry: 500\ndata: \n\n"
    assert legacy_sse.retry(500) == b"retry: 500\n\n"
