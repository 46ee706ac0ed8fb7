"""Answers of an authorization server are limited before they are decoded."""

import gzip
import logging
import tracemalloc
import zlib
from http.server import BaseHTTPRequestHandler
from typing import Final

import pytest

from mcp_app.auth.authentication import UndecidedError
from mcp_app.auth.oauth.fetching import MAX_BYTES, fetch_json
from mcp_app.conf import MIB
from tests.auth.authorization_server import AuthorizationServer as Issuer

EXPANDED: Final = b" " * (64 * MIB)
BOMBS: Final = {
    "gzip": gzip.compress(EXPANDED, 1),
    "GZIP": gzip.compress(EXPANDED, 1),
    "deflate": zlib.compress(EXPANDED, 1),
    "gzip, gzip": gzip.compress(gzip.compress(EXPANDED, 1)),
}
"""Bodies that expand at least a hundredfold, by their declared encoding."""


@pytest.mark.parametrize("encoding", BOMBS)
def test_a_compressed_answer_is_refused_and_not_expanded(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, encoding: str
) -> None:
    accepted = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        accepted.append(request.headers["Accept-Encoding"])
        request.send_response(200)
        request.send_header("Content-Encoding", encoding)
        request.end_headers()
        request.wfile.write(BOMBS[encoding])

    issuer.instead = answer
    tracemalloc.start()
    try:
        with caplog.at_level(logging.ERROR), pytest.raises(UndecidedError):
            fetch_json(f"{issuer.issuer}/keys")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB
    assert accepted == ["identity"]
    assert f"{issuer.issuer}/keys" in caplog.text
    assert "compressed" in caplog.text


def test_an_answer_that_is_too_large_is_refused(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    issuer.keys = [{"kid": "x" * MAX_BYTES}]
    with caplog.at_level(logging.ERROR), pytest.raises(UndecidedError):
        fetch_json(f"{issuer.issuer}/keys")
    assert f"{issuer.issuer}/keys" in caplog.text
    assert f"larger than {MAX_BYTES} bytes" in caplog.text
