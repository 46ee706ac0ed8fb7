import json
from typing import Any

import pytest
from hypothesis import given

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.inbound import classify_line
from mcp_app.protocol.legacy.inbound import LegacyMessages
from mcp_app.protocol.requests import Route
from tests.protocol.posts import modern_meta
from tests.protocol.test_jsonrpc import BODIES


def line(method: str = "tools/list", **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


def test_a_request_needs_no_headers_and_takes_every_form_of_answer() -> None:
    found = classify_line(line("subscriptions/listen", _meta=modern_meta()))
    assert isinstance(found, Route)
    assert (found.request_id, found.method) == (7, "subscriptions/listen")
    assert found.accept.json
    assert found.accept.event_stream


@pytest.mark.parametrize("version", ["v999", "2025-11-25"])
def test_a_version_that_is_not_served_is_refused_by_name(version: str) -> None:
    found = classify_line(line(_meta=modern_meta(protocolVersion=version)))
    assert isinstance(found, Rejection)
    assert (found.code, found.data["requested"]) == (-32022, version)


@pytest.mark.parametrize(
    "sent",
    [
        {"jsonrpc": "2.0", "id": 7, "method": "tools/list"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "_meta": modern_meta()}},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
        [{"jsonrpc": "2.0", "id": 7, "method": "ping"}],
    ],
)
def test_only_a_request_that_declares_its_version_is_modern(sent: Any) -> None:
    found = classify_line(json.dumps(sent).encode())
    assert isinstance(found, LegacyMessages)
    assert found.is_batch == isinstance(sent, list)


@given(body=BODIES)
def test_no_line_raises(body: bytes) -> None:
    assert isinstance(classify_line(body), Route | LegacyMessages | Rejection)
