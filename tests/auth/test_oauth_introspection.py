"""Introspection: a token is accepted while its issuer confirms it, and rejected if the issuer is
down.
"""

import base64
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote_plus

import pytest

from mcp_app.auth.authentication import (
    HeaderFields,
    HTTPConnection,
    InsufficientScopeError,
    InvalidCredentialsError,
    UndecidedError,
)
from mcp_app.auth.oauth import fetching
from mcp_app.auth.oauth.introspection import bearer
from mcp_app.auth.principal import Principal
from mcp_app.models import Request
from tests.auth.asking import ask
from tests.auth.authorization_server import CLIENT_ID, CLIENT_SECRET, AuthorizationServer
from tests.support.asgi_client import message, post

pytestmark = [pytest.mark.usefixtures("_protected"), pytest.mark.django_db(transaction=True, databases="__all__")]

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
Issuer = AuthorizationServer


@pytest.fixture
def _protected(protected: Callable[..., None]) -> None:
    protected("introspection")


def asked_with(token: str) -> Principal | None:
    return bearer(HTTPConnection(HeaderFields([(b"authorization", f"Bearer {token}".encode())]), "192.0.2.1", "/mcp"))


def test_a_token_is_whose_its_issuer_says(issuer: Issuer) -> None:
    token = issuer.opaque(username="Ada")
    principal = asked_with(token)
    assert principal == Principal(issuer.issuer, "ada", "editor", "Ada")
    assert principal is not None
    assert principal.scopes == {"files:read", "files:write"}
    assert ask(token).status == 200


def test_the_server_shows_its_own_credentials_to_the_issuer(issuer: Issuer) -> None:
    asked_with(issuer.opaque())
    scheme, _, encoded = issuer.logins[0].partition(" ")
    client, _, secret = base64.b64decode(encoded).decode().partition(":")
    assert (scheme, unquote_plus(client), unquote_plus(secret)) == ("Basic", CLIENT_ID, CLIENT_SECRET)


@pytest.mark.fault("G3")
@pytest.mark.parametrize(
    "changes",
    [
        {"active": False},
        {"active": "true"},
        {"active": 1},
        {"aud": None},
        {"aud": "https://other.example.com/mcp"},
        {"iss": "https://evil.example.com"},
        {"exp": 1_000_000_000},
        {"exp": "tomorrow"},
        {"nbf": 9_999_999_999},
        {"sub": None},
        {"sub": 7},
    ],
    ids=str,
)
def test_G3_a_token_that_is_not_active_or_not_for_this_endpoint_is_a_401(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, changes: dict[str, Any]
) -> None:
    token = issuer.opaque(**changes)
    with caplog.at_level(logging.DEBUG, logger="mcp_app"):
        reply = ask(token)
    assert reply.status == 401
    assert reply.parameters == {"error": "invalid_token", "resource_metadata": METADATA}
    assert [record.name for record in caplog.records if record.levelno == logging.INFO] == ["mcp_app.auth.oauth.claims"]
    assert token not in f"{caplog.text}{reply.body}"
    assert not Request.objects.exists()


@pytest.mark.fault("G3")
def test_G3_an_unknown_token_and_one_in_the_query_are_a_401(issuer: Issuer) -> None:
    assert ask(secrets.token_urlsafe(16)).status == 401
    before = len(issuer.asked)
    assert ask(query=f"access_token={issuer.opaque()}").status == 401
    assert len(issuer.asked) == before


def test_what_the_issuer_leaves_out_of_its_answer_may_be_left_out(issuer: Issuer) -> None:
    token = issuer.opaque(iss=None, exp=None, client_id=None, scope=None)
    assert asked_with(token) == Principal(issuer.issuer, "ada", "", "ada")


def test_a_scope_that_every_request_takes_is_asked_for(configure: Any, issuer: Issuer) -> None:
    configure(OAUTH_REQUIRED_SCOPES=["mcp"])
    with pytest.raises(InsufficientScopeError):
        asked_with(issuer.opaque())


def ask_for_seconds(token: str) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        asked_with(token)


def test_an_answer_is_good_for_seconds_and_its_end_is_no_later_than_the_tokens(configure: Any, issuer: Issuer) -> None:
    configure(OAUTH_INTROSPECTION_CACHE=60.0)
    good, ending = issuer.opaque(), issuer.opaque(exp=int(time.time()) - 9)
    for _ in range(3):
        assert asked_with(good) is not None
    assert issuer.times_asked("/introspect") == 1
    with pytest.raises(InvalidCredentialsError):  # the leeway is over within two seconds
        ask_for_seconds(ending)
    assert issuer.times_asked("/introspect") == 2


@pytest.mark.fault("E8")
@pytest.mark.parametrize("cache", [0, 0.2])
def test_E8_a_revoked_token_opens_no_longer_than_the_settings_say(configure: Any, issuer: Issuer, cache: float) -> None:
    configure(OAUTH_INTROSPECTION_CACHE=cache)
    token = issuer.opaque()
    asked_with(token)
    issuer.introspected[token] = {"active": False}
    revoked_at = time.monotonic()
    with pytest.raises(InvalidCredentialsError):
        ask_for_seconds(token)
    assert time.monotonic() < revoked_at + cache + 1


@pytest.mark.fault("E8")
async def test_E8_the_stream_of_a_token_that_its_issuer_revoked_ends(configure: Any, issuer: Issuer) -> None:
    configure(OAUTH_INTROSPECTION_CACHE=0, CONFIRM_AFTER=0.1)
    token = issuer.opaque()
    client = await post(
        message("subscriptions/listen", notifications={"toolsListChanged": True}),
        headers={"Authorization": f"Bearer {token}"},
    )
    await client.head()
    assert (await client.next_message())["method"] == "notifications/subscriptions/acknowledged"
    issuer.introspected[token] = {"active": False}
    assert [message["result"]["resultType"] for message in await client.rest()] == ["complete"]


def drip(begin: bytes, now_and_then: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """Send a little now and then, until the connection is closed."""

    def say(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(begin)
        with suppress(OSError):
            while not gone.wait(0.05):
                request.wfile.write(now_and_then)

    return say


gone = threading.Event()


def answer(body: bytes, status: int = 200, **fields: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def say(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **fields}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return say


FAILING: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "an error": answer(b'{"active": true}', 500),
    "our credentials are refused": answer(b"{}", 401),
    "a redirect": answer(b"", 302, Location="/elsewhere"),
    "a temporary redirect": answer(b"", 307, Location="/elsewhere"),
    "no JSON": answer(b"<html>"),
    "no object": answer(b"true"),
    "nested without end": answer(b"[" * 100_000),
    "too much": answer(b'{"active": true}' + b" " * 300_000),
    "cut off": lambda request: request.connection.close(),
    "nothing": lambda request: gone.wait(30) and None,
    "a byte now and then": drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
    "a header now and then": drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
}


@pytest.fixture
def _release() -> Iterator[None]:
    gone.clear()
    yield
    gone.set()


@pytest.mark.fault("G3")
@pytest.mark.usefixtures("_release")
@pytest.mark.parametrize("kind", FAILING)
def test_G3_while_the_issuer_cannot_be_asked_nobody_is_let_in_nor_told_that_its_token_is_bad(
    configure: Any, issuer: Issuer, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    configure(OAUTH_TIMEOUT=1.5)
    issuer.instead = FAILING[kind]
    token = issuer.opaque()
    started = time.monotonic()
    with caplog.at_level(logging.DEBUG, logger="mcp_app"):
        reply = ask(token)
    assert time.monotonic() - started < 5
    gone.set()
    assert (reply.status, reply.challenge) == (503, "")
    assert issuer.asked == ["/introspect"], "what was sent went nowhere else"
    [failure] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"{issuer.issuer}/introspect " in failure.message
    for secret in (token, CLIENT_SECRET):
        assert secret not in f"{caplog.text}{reply.body}"


def test_an_issuer_that_failed_is_left_alone_for_a_moment_then_asked_again(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.instead = answer(b"", 500)
    for _ in range(10):
        with pytest.raises(UndecidedError):
            asked_with(issuer.opaque())
    assert issuer.times_asked("/introspect") == 1
    fetching._retry_at.clear()
    monkeypatch.setattr(fetching, "RETRY_AFTER_SECONDS", 0.0)
    with pytest.raises(UndecidedError):
        asked_with(issuer.opaque())
    issuer.instead = None
    assert asked_with(issuer.opaque()) is not None


@pytest.mark.usefixtures("_release")
def test_one_request_waits_for_an_issuer_that_failed_and_the_others_do_not(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "RETRY_AFTER_SECONDS", 0.0)
    vouched = issuer.opaque()
    asked_with(vouched)
    issuer.instead = answer(b"", 500)
    with pytest.raises(UndecidedError):
        asked_with(issuer.opaque())
    tried = threading.Event()

    def hang(request: BaseHTTPRequestHandler) -> None:
        tried.set()
        gone.wait(30)

    issuer.instead = hang
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(asked_with, issuer.opaque())
        assert tried.wait(10)
        with pytest.raises(UndecidedError):
            asked_with(issuer.opaque())
        assert asked_with(vouched) is not None
        assert not waiting.done()
        gone.set()
        with pytest.raises(UndecidedError):
            waiting.result(10)
    assert issuer.times_asked("/introspect") == 3


def test_nobody_listens_at_the_address(configure: Any) -> None:
    configure(OAUTH_INTROSPECTION_URL="http://127.0.0.1:9/introspect")
    assert ask("some-token").status == 503
