"""Keys are fetched when needed and cached for a while, and only keys for signatures are used."""

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from mcp_app.auth.authentication import InvalidCredentialsError, UndecidedError
from mcp_app.auth.oauth import jwts
from tests.auth.asking import ask
from tests.auth.authorization_server import OTHER_KEY, RSA_KEY, public_key
from tests.auth.authorization_server import AuthorizationServer as Issuer
from tests.auth.jwts import authenticate_token

pytestmark = [pytest.mark.usefixtures("_protected"), pytest.mark.django_db(transaction=True, databases="__all__")]


@pytest.fixture
def _protected(protected: Callable[..., None]) -> None:
    protected("jwts")


def test_tokens_are_verified_without_asking_their_issuer_again(issuer: Issuer) -> None:
    for _ in range(5):
        authenticate_token(issuer.token())
    assert issuer.asked == ["/keys"]


def test_a_new_key_is_fetched_when_it_is_named(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    authenticate_token(issuer.token())
    monkeypatch.setattr(jwts, "REFETCH_SECONDS", 0.0)
    issuer.keys = [public_key(OTHER_KEY, "new")]
    assert authenticate_token(issuer.token(key=OTHER_KEY, algorithm="ES256", header={"kid": "new"})) is not None
    with pytest.raises(InvalidCredentialsError):  # the issuer withdrew the old one
        authenticate_token(issuer.token())


@pytest.mark.fault("G3")
def test_G3_unknown_keys_make_nobody_ask_their_issuer_often(issuer: Issuer) -> None:
    for number in range(20):
        with pytest.raises(InvalidCredentialsError):
            authenticate_token(issuer.token(header={"kid": f"unknown-{number}"}))
    assert issuer.asked == ["/keys"]


@pytest.fixture
def away(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make the authorization server fail, and allow an immediate retry."""

    def fail() -> None:
        issuer.instead = lambda request: request.send_error(500)
        for name in ("FRESH_SECONDS", "REFETCH_SECONDS"):
            monkeypatch.setattr(jwts, name, 0.0)

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
    authenticate_token(issuer.token())
    away()
    assert authenticate_token(issuer.token()) is not None
    monkeypatch.setattr(jwts, "USABLE_SECONDS", 0.0)
    with pytest.raises(UndecidedError):
        authenticate_token(issuer.token())


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
        authenticate_token(issuer.token())
