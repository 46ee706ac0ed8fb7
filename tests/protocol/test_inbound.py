import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import ModernNotification, classify
from mcp_app.protocol.jsonrpc import Limits, encode, error_response
from mcp_app.protocol.legacy.inbound import LegacyPost
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import LEGACY_REVISIONS, MODERN
from tests.protocol.posts import ABSENT, headers_of, modern_meta, post, rejection, route
from tests.protocol.test_jsonrpc import BODIES


def test_a_well_formed_request_becomes_a_route() -> None:
    found = route("tools/call", {"name": "echo", "arguments": {"a": None}}, request_id="")
    assert (found.request_id, found.method) == ("", "tools/call")
    assert found.params["arguments"] == {"a": None}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "unknown/method", ""])
def test_whether_a_method_exists_is_not_the_ladders_to_say(method: str) -> None:
    assert route(method).method == method


def test_an_unknown_version_in_header_and_body_is_unsupported_and_names_the_served() -> None:
    outcome = rejection(meta=modern_meta(protocolVersion="v999.0.0"), headers={"mcp-protocol-version": "v999.0.0"})
    assert (outcome.code, outcome.status, outcome.request_id) == (-32022, 400, 7)
    assert outcome.data == {"supported": ["2026-07-28"], "requested": "v999.0.0"}


def test_an_unknown_version_in_the_header_alone_is_unsupported() -> None:
    assert rejection(meta=ABSENT, headers={"mcp-protocol-version": "v999.0.0"}).code == -32022


@pytest.mark.parametrize(
    ("header", "declared"),
    [("2026-07-28", "v999.0.0"), ("v999.0.0", "2026-07-28"), ("2025-11-25", "2026-07-28"), (ABSENT, "2026-07-28")],
)
def test_disagreement_about_the_version_comes_before_support(header: Any, declared: str) -> None:
    outcome = rejection(meta=modern_meta(protocolVersion=declared), headers={"mcp-protocol-version": header})
    assert (outcome.code, outcome.status) == (-32020, 400)


def test_the_ladder_stops_at_its_first_failed_rung() -> None:
    bad_name = {"mcp-name": "other", "accept": "text/html"}
    call = ("tools/call", {"name": "echo"})
    assert rejection(*call, meta={}, headers=bad_name).code == -32602
    assert rejection(*call, headers=bad_name).code == -32020
    assert rejection(*call, headers={"accept": "text/html"}).code == 406
    assert rejection(*call, meta={}, headers={"mcp-protocol-version": ["2026-07-28"] * 2}).code == -32020


@pytest.mark.parametrize("header", [ABSENT, MODERN, "v999.0.0", *LEGACY_REVISIONS])
def test_a_version_in_meta_makes_a_request_modern(header: Any) -> None:
    outcome = post(headers={"mcp-protocol-version": header})
    if header == MODERN:
        assert isinstance(outcome, Route)
    else:
        assert isinstance(outcome, Rejection)
        assert outcome.code == -32020


@pytest.mark.parametrize(("header", "code"), [(MODERN, -32602), ("v999.0.0", -32022), ("", -32022)])
def test_a_header_that_names_a_modern_or_unknown_version_makes_a_request_modern(header: str, code: int) -> None:
    assert rejection(meta=ABSENT, headers={"mcp-protocol-version": header}).code == code


@pytest.mark.parametrize("meta", [ABSENT, {"progressToken": 1}])
@pytest.mark.parametrize("version", [ABSENT, *LEGACY_REVISIONS])
def test_a_legacy_version_or_none_without_a_version_in_meta_is_legacy(version: Any, meta: Any) -> None:
    outcome = post(meta=meta, headers={"mcp-protocol-version": version, "mcp-method": ABSENT})
    assert isinstance(outcome, LegacyPost)
    assert outcome.choose_revision(None).name == ("2025-03-26" if version is ABSENT else version)


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/initialized", "notifications/own"])
@pytest.mark.parametrize("version", ["2026-07-28", "v9", ["x", "y"]])
def test_a_notification_is_accepted_whatever_its_headers(method: str, version: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}).encode()
    assert classify(headers_of({"mcp-method": "other", "mcp-protocol-version": version}), body) == ModernNotification(
        method, {"requestId": 1}
    )


def test_a_malformed_body_needs_no_headers_to_be_refused() -> None:
    for body, code in ((b"{", -32700), (b"[]", -32600)):
        outcome = classify(Headers([]), body)
        assert isinstance(outcome, Rejection)
        assert (outcome.code, outcome.request_id) == (code, None)


def test_session_headers_of_older_revisions_are_ignored() -> None:
    route(headers={"mcp-session-id": "s", "last-event-id": "1"})


def test_the_limits_reach_the_progress_token() -> None:
    assert isinstance(post(meta=modern_meta(progressToken="x" * 200)), Route)
    body = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"_meta": modern_meta(progressToken="xxx")}}
    fields = {"mcp-protocol-version": "2026-07-28", "mcp-method": "m"}
    outcome = classify(headers_of(fields), json.dumps(body).encode(), Limits(max_id_chars=2))
    assert isinstance(outcome, Rejection)
    assert outcome.code == -32602


HEADER_NAMES = st.sampled_from(
    [b"mcp-protocol-version", b"Mcp-Method", b"mcp-name", b"accept", b"MCP-Protocol-Version"]
)
HEADER_VALUES = st.binary(max_size=30) | st.sampled_from(
    [b"2026-07-28", b"2025-11-25", b"tools/call", b"tools/list", b"x", b"*/*", b"=?base64?eA==?=", b"=?base64?e?="]
)
METAS = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.sampled_from(["2026-07-28", "v9", 1, None]),
        "io.modelcontextprotocol/clientCapabilities": st.sampled_from([{}, {"sampling": {}}, [], None]),
        "io.modelcontextprotocol/clientInfo": st.sampled_from([{}, {"name": "n", "version": "1"}, 1]),
        "io.modelcontextprotocol/logLevel": st.sampled_from(["debug", "x", [], None]),
        "progressToken": st.sampled_from([0, "", True, 1.5, None, "x" * 300]),
        "traceparent": st.text(max_size=60),
    },
)
REQUESTS = st.builds(
    lambda method, name, meta: json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": name, "_meta": meta}}
    ).encode(),
    st.sampled_from(["tools/call", "tools/list", "subscriptions/listen"]),
    st.sampled_from(["x", "", 1, None]),
    METAS,
)


@given(st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=5), BODIES | REQUESTS)
def test_any_headers_and_body_become_a_value(raw: list[tuple[bytes, bytes]], body: bytes) -> None:
    outcome = classify(Headers(raw), body)
    assert isinstance(outcome, (Route, ModernNotification, LegacyPost, Rejection))
    if isinstance(outcome, Rejection):
        assert outcome.status in (400, 406)
        assert encode(error_response(outcome))
