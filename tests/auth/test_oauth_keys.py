"""The keys that prove tokens: fetched when they are needed, kept for a while, and only such as are for signatures."""

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from mcp_app.auth.authentication import InvalidCredentialsError, UndecidedError
from mcp_app.auth.oauth import keys
from tests.auth.asking import ask
from tests.auth.authorization_server import OTHER_KEY, RSA_KEY, public_key
from tests.auth.authorization_server import AuthorizationServer as Issuer
from tests.auth.jwts import asked_with

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture(autouse=True)
def _protected(protected: Callable[..., None]) -> None:
    protected("jwts")


def test_tokens_are_verified_without_asking_their_issuer_again(issuer: Issuer) -> None:
    for _ in range(5):
        asked_with(issuer.token())
    assert issuer.asked == ["/keys"]


def test_a_new_key_is_fetched_when_it_is_named(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_with(issuer.token())
    monkeypatch.setattr(keys, "REFETCH_SECONDS", 0.0)
    issuer.keys = [public_key(OTHER_KEY, "new")]
    assert asked_with(issuer.token(key=OTHER_KEY, algorithm="ES256", header={"kid": "new"})) is not None
    with pytest.raises(InvalidCredentialsError):  # the old one was withdrawn
        asked_with(issuer.token())


@pytest.mark.fault("G3")
def test_G3_unknown_keys_make_nobody_ask_their_issuer_often(issuer: Issuer) -> None:
    for number in range(20):
        with pytest.raises(InvalidCredentialsError):
            asked_with(issuer.token(header={"kid": f"unknown-{number}"}))
    assert issuer.asked == ["/keys"]


@pytest.fixture
def away(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have the authorization server fail from now on, and be asked at once all the same."""

    def fail() -> None:
        issuer.instead = lambda request: request.send_error(500)
        for name in ("FRESH_SECONDS", "REFETCH_SECONDS"):
            monkeypatch.setattr(keys, name, 0.0)

    return fail


@pytest.mark.fault("G3")
def test_G3_while_keys_cannot_be_had_a_token_is_neither_good_nor_bad(issuer: Issuer, away: Callable[[], None]) -> None:
    away()
    for _ in range(3):
        reply = ask(issuer.token())
        assert (reply.status, reply.challenge) == (503, "")
    assert issuer.asked == ["/keys"], "it is left alone for a moment"


def test_keys_that_were_had_are_good_for_a_while_without_their_issuer(
    issuer: Issuer, away: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_with(issuer.token())
    away()
    assert asked_with(issuer.token()) is not None
    monkeypatch.setattr(keys, "USABLE_SECONDS", 0.0)
    with pytest.raises(UndecidedError):
        asked_with(issuer.token())


@pytest.mark.parametrize(
    "key",
    [
        public_key(RSA_KEY, "rsa", use="enc"),
        public_key(RSA_KEY, "rsa", alg="RSA-OAEP"),
        {"kty": "oct", "kid": "rsa", "k": "c2VjcmV0"},
        {"kty": "RSA", "kid": "rsa"},
        "no key",
        public_key(rsa.generate_private_key(public_exponent=65537, key_size=1024), "rsa"),
    ],
    ids=["for encryption", "of another algorithm", "secret", "broken", "no object", "too short"],
)
def test_keys_that_are_not_for_signatures_prove_nothing(issuer: Issuer, key: Any) -> None:
    issuer.keys = [key]
    with pytest.raises(InvalidCredentialsError):
        asked_with(issuer.token())
