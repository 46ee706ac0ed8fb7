import json
from typing import Any

import pytest
from hypothesis import given

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.inbound import Notified, Route
from mcp_app.protocol.lines import cancelled_request, classify_line
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
    ("method", "named", "found"),
    [
        ("notifications/cancelled", 0, 0),
        ("notifications/cancelled", "", ""),
        ("notifications/cancelled", True, None),
        ("notifications/cancelled", 1.0, None),
        ("notifications/cancelled", None, None),
        ("notifications/progress", 1, None),
    ],
)
def test_only_a_well_formed_cancellation_names_a_request(method: str, named: Any, found: Any) -> None:
    assert cancelled_request(Notified(method, {"requestId": named})) == found


@given(body=BODIES)
def test_no_line_raises(body: bytes) -> None:
    assert isinstance(classify_line(body), Route | Notified | Rejection)
