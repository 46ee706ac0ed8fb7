"""Texts with a form that the protocol defines."""

import pytest

from mcp_app.protocol.formats import is_base64, is_icon_source, is_meta_key, is_mime_type, is_time


@pytest.mark.parametrize("text", ["image/png", "text/plain; charset=utf-8", "application/vnd.api+json"])
def test_a_mime_type_is_one(text: str) -> None:
    assert is_mime_type(text)


@pytest.mark.parametrize("text", ["", "png", "image/", "image png", "a/b/c", None, 1])
def test_other_texts_are_no_mime_type(text: object) -> None:
    assert not is_mime_type(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("", True), ("aa==", True), ("aa", False), ("a b=", False), ("é", False)]
)
def test_base64_is_strict(text: str, expected: bool) -> None:
    assert is_base64(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2026-01-31T15:00:58Z", True), ("2026-01-31", True), ("yesterday", False), ("31.01.2026", False), ("", False)],
)
def test_times_are_iso_8601(text: str, expected: bool) -> None:
    assert is_time(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("https://a/i.png", True), ("DATA:image/png;base64,AA==", True), ("http://a/i", False), ("javascript:x", False)],
)
def test_icons_come_by_https_or_with_the_message(text: str, expected: bool) -> None:
    assert is_icon_source(text) is expected


@pytest.mark.parametrize("key", ["team", "a.b-c_d", "com.example/team", "openai/widget", "com.example.mcp/a", "ui/uri"])
def test_anybody_may_name_a_member_of_meta_so(key: str) -> None:
    assert is_meta_key(key)


@pytest.mark.parametrize(
    "key",
    ["", "not a key", "-a", "1com/a", "com..a/b", "/a", "a/b/c", "io.modelcontextprotocol/serverInfo", "com.MCP.a/b"],
)
def test_what_is_no_name_or_the_protocols_own_is_no_key(key: str) -> None:
    assert not is_meta_key(key)
