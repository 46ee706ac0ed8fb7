"""URIs by RFC 3986, of limited length."""

import pytest

from mcp_app.protocol.formats import MAX_URI_CHARS, is_uri


@pytest.mark.parametrize(
    "uri", ["notes://today", "urn:isbn:0451450523", "file:///a/b%20c.txt", "x+y.z-1:a", "http://[::1]:80/?q=1#f"]
)
def test_an_absolute_uri_is_one(uri: str) -> None:
    assert is_uri(uri)


@pytest.mark.parametrize(
    "uri",
    ["", "notes", "/a/b", "1x:a", "notes:", "notes://a b", "notes://a\n", "notes://é", "notes://%zz", "a:{b}", None, 7],
)
def test_everything_else_is_none(uri: object) -> None:
    assert not is_uri(uri)


def test_a_uri_is_of_bounded_length() -> None:
    assert is_uri("x:" + "a" * (MAX_URI_CHARS - 2))
    assert not is_uri("x:" + "a" * (MAX_URI_CHARS - 1))
