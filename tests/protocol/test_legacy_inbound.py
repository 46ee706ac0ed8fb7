"""POSTs of legacy clients: one message or, in one revision, several (2025-03-26 basic/index)."""

import json
from typing import Any

import pytest

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.inbound import classify
from mcp_app.protocol.jsonrpc import ClientResponse, Notification, RequestMessage
from mcp_app.protocol.legacy.inbound import MAX_BATCH, LegacyPost, check_batch
from mcp_app.protocol.revisions import LEGACY, LEGACY_REVISIONS
from tests.protocol.posts import ABSENT, headers_of

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
TOLD = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ANSWER = {"jsonrpc": "2.0", "id": "s1", "result": {}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}


def post(body: Any, version: Any = ABSENT, **fields: Any) -> Any:
    headers = headers_of({"mcp-protocol-version": version, **fields})
    return classify(headers, json.dumps(body).encode())


def test_each_kind_of_message_is_read() -> None:
    for body, kind in ((PING, RequestMessage), (TOLD, Notification), (ANSWER, ClientResponse)):
        found = post(body)
        assert isinstance(found, LegacyPost)
        assert not found.is_batch
        [message] = found.messages
        assert isinstance(message, kind)


def test_a_batch_is_read_message_by_message_and_only_the_unreadable_is_refused() -> None:
    found = post([PING, TOLD, ANSWER, 5, {"jsonrpc": "2.0", "id": 2}])
    kinds = [type(message) for message in found.messages]
    assert kinds == [RequestMessage, Notification, ClientResponse, Rejection, Rejection]
    assert [message.request_id for message in found.messages[3:]] == [None, 2]


@pytest.mark.parametrize(
    ("accept", "streams"), [("application/json", False), ("text/event-stream", True), ("text/html", None)]
)
def test_a_batch_of_what_cannot_be_read_is_answered_in_a_form_that_its_client_takes(
    accept: str, streams: bool | None
) -> None:
    found = post([{"jsonrpc": "2.0", "id": 1}, TOLD], "2025-03-26", accept=accept)
    if streams is None:
        assert (found.status, found.request_id) == (406, 1)
    else:
        assert found.accept.event_stream == streams


@pytest.mark.parametrize("body", [[], [TOLD] * (MAX_BATCH + 1), 5, None, {"jsonrpc": "2.0", "id": True, "result": 1}])
def test_what_is_no_message_is_refused(body: Any) -> None:
    found = post(body)
    assert isinstance(found, Rejection)
    assert (found.code, found.status) == (-32600, 400)


def test_only_one_revision_has_batches() -> None:
    for version in LEGACY_REVISIONS:
        refusal = check_batch(post([PING], version), LEGACY[version])
        assert (refusal is None) == (version == "2025-03-26")
    assert check_batch(post([PING, INITIALIZE]), LEGACY["2025-03-26"]) is not None
    assert check_batch(post(INITIALIZE), LEGACY["2025-11-25"]) is None


def test_the_session_decides_the_revision_before_the_header() -> None:
    found = post(PING, "2025-06-18")
    assert found.choose_revision("2025-11-25").name == "2025-11-25"
    assert found.choose_revision(None).name == "2025-06-18"


@pytest.mark.parametrize("body", [[PING], ANSWER])
@pytest.mark.parametrize("version", ["2026-07-28", "v9"])
def test_the_modern_era_has_neither_batches_nor_posted_responses(body: Any, version: str) -> None:
    found = post(body, version)
    assert isinstance(found, Rejection)
    assert (found.code, found.status) == (-32600, 400)
