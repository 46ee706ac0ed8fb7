from typing import Any

import pytest

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.headers import Accept
from mcp_app.protocol.jsonrpc import DEFAULT_LIMITS, RequestMessage
from mcp_app.protocol.legacy.requests import Handshake, to_route
from mcp_app.protocol.metadata import TIME_LIMIT
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import LEGACY
from tests.protocol.posts import ABSENT, modern_meta, rejection, route

NO_LIMITS = [0, -1, True, 1.5, "1000", False, [], {}, 2**53]


@pytest.mark.parametrize(
    "meta",
    [
        ABSENT,
        [],
        5,
        {},
        modern_meta(protocolVersion=ABSENT),
        modern_meta(protocolVersion=20260728),
        modern_meta(protocolVersion=None),
        modern_meta(clientCapabilities=ABSENT),
        modern_meta(clientCapabilities=None),
        modern_meta(clientCapabilities=[]),
        modern_meta(clientCapabilities={"sampling": 5}),
        modern_meta(logLevel="loud"),
        modern_meta(logLevel={}),
        modern_meta(progressToken=True),
        modern_meta(progressToken=1.5),
        modern_meta(progressToken=["t"]),
        modern_meta(progressToken="x" * 257),
        *(modern_meta(**{TIME_LIMIT: limit}) for limit in NO_LIMITS),
    ],
)
def test_missing_or_mistyped_metadata_is_invalid_params_and_400(meta: Any) -> None:
    outcome = rejection(meta=meta, request_id="r")
    assert (outcome.code, outcome.status, outcome.request_id) == (-32602, 400, "r")


@pytest.mark.parametrize("token", [0, "", "t", 5, "0"])
def test_zero_and_the_empty_string_are_progress_tokens(token: str | int) -> None:
    read = route(meta=modern_meta(progressToken=token)).metadata.progress_token
    assert read == token
    assert type(read) is type(token)


@pytest.mark.parametrize("nulls", [{}, {"progressToken": None, "logLevel": None, TIME_LIMIT: None}])
def test_what_was_not_asked_for_or_is_null_is_none(nulls: dict[str, None]) -> None:
    metadata = route(meta=modern_meta(**nulls)).metadata
    assert metadata.progress_token is None
    assert metadata.log_level is None
    assert metadata.time_limit_ms is None
    assert metadata.trace_context == {}


def test_what_was_declared_is_kept() -> None:
    capabilities = {"sampling": {}, "extensions": {"com.example/x": {"a": 1}}, "own": 5}
    metadata = route(meta=modern_meta(clientCapabilities=capabilities, logLevel="debug")).metadata
    assert metadata.protocol_version == "2026-07-28"
    assert metadata.client_capabilities == capabilities
    assert metadata.client_info == {"name": "test", "version": "1"}
    assert metadata.log_level == "debug"


@pytest.mark.parametrize("client_info", [ABSENT, None, "me", {"name": 5, "version": "1"}, {"name": "n"}])
def test_client_info_is_optional_and_dropped_when_malformed(client_info: Any) -> None:
    assert route(meta=modern_meta(clientInfo=client_info)).metadata.client_info is None


def test_a_malformed_trace_context_fails_nothing() -> None:
    assert route(meta=modern_meta(traceparent="bad", baggage="a=1")).metadata.trace_context == {"baggage": "a=1"}


def legacy(meta: dict[str, Any]) -> Route | Rejection:
    request = RequestMessage(1, "tools/call", {"name": "work", "_meta": meta})
    return to_route(request, LEGACY["2025-11-25"], Handshake(), Accept(json=True, event_stream=True), DEFAULT_LIMITS)


@pytest.mark.parametrize("limit", [1, 1500, 2**53 - 1])
def test_a_callers_time_limit_is_read_in_any_era(limit: int) -> None:
    assert route(meta=modern_meta(**{TIME_LIMIT: limit})).metadata.time_limit_ms == limit
    read = legacy({TIME_LIMIT: limit})
    assert isinstance(read, Route)
    assert read.metadata.time_limit_ms == limit


def test_members_that_are_null_are_absent_in_the_older_eras_too() -> None:
    read = legacy({"progressToken": None, TIME_LIMIT: None})
    assert isinstance(read, Route)
    assert (read.metadata.progress_token, read.metadata.time_limit_ms) == (None, None)


@pytest.mark.parametrize("limit", NO_LIMITS)
def test_a_callers_time_limit_that_is_none_is_refused_in_the_older_eras_too(limit: Any) -> None:
    refused = legacy({TIME_LIMIT: limit})
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.request_id) == (-32602, 1)
    assert TIME_LIMIT in refused.message


def test_our_key_is_one_that_the_specification_leaves_to_others() -> None:
    prefix, name = TIME_LIMIT.split("/")
    labels = prefix.split(".")
    assert labels[1] not in ("mcp", "modelcontextprotocol")
    assert all(label[0].isalpha() and label[-1].isalnum() for label in labels)
    assert name.isalnum()
