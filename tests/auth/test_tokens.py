"""The site's own tokens are valid until they expire or are revoked, and their rows reveal nothing."""

import hashlib
import json
import logging
import secrets
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import serializers
from django.db import OperationalError
from django.utils import timezone

from mcp_app.auth import tokens
from mcp_app.auth.authentication import HeaderFields, HTTPConnection, InvalidCredentialsError
from mcp_app.auth.principal import Principal
from mcp_app.auth.tokens import IssuedToken, bearer
from mcp_app.models import Token

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture(name="ada")
def _ada() -> User:
    return User.objects.create_user("ada")


def issue(user: User, **options: Any) -> IssuedToken:
    return tokens.issue(user, "her laptop", by="root", **options)


def asked_with(authorization: str | None) -> Principal | None:
    fields = [] if authorization is None else [(b"Authorization", authorization.encode())]
    return bearer(HTTPConnection(HeaderFields(fields), "192.0.2.1", "/mcp"))


def test_a_token_is_its_users_with_its_scopes_and_a_client_of_its_own(ada: User) -> None:
    limited, unlimited = issue(ada, scopes=["b", "a", "b"]), issue(ada)
    principal = asked_with(f"Bearer {limited.text}")
    assert principal is not None
    assert (principal.issuer, principal.subject, principal.client_id) == ("django", str(ada.pk), limited.row.prefix)
    assert principal.scopes == {"a", "b"}
    other = asked_with(f"bearer  {unlimited.text}")
    assert other is not None
    assert other.scopes is None
    assert other != principal


def test_without_credentials_nobody_is_named(ada: User) -> None:
    assert asked_with(None) is None


def altered(text: str) -> str:
    return text[:-1] + ("A" if text[-1] != "A" else "B")


@pytest.mark.parametrize(
    "credentials",
    [
        lambda text: "",
        lambda text: "Bearer",
        lambda text: f"Basic {text}",
        lambda text: f"Bearer {text} x",
        lambda text: f"Bearer {text}, Bearer {text}",
        lambda text: f"Bearer {altered(text)}",
        lambda text: f"Bearer {text[:-1]}",
        lambda text: f"Bearer {text}x",
        lambda text: f"Bearer mcp_{secrets.token_hex(6)}_{text[-43:]}",
        lambda text: f"Bearer {text.upper()}",
        lambda text: f"Bearer {'x' * 100_000}",
    ],
)
def test_what_is_no_good_token_names_nobody_not_even_the_anonymous(ada: User, credentials: Any) -> None:
    with pytest.raises(InvalidCredentialsError):
        asked_with(credentials(issue(ada).text))


def test_a_token_that_expired_or_was_revoked_or_whose_user_may_not_enter_is_no_good(ada: User) -> None:
    expired = issue(ada, expires_at=timezone.now() - timedelta(seconds=1))
    good = issue(ada, expires_at=timezone.now() + timedelta(hours=1))
    revoked = issue(ada)
    assert tokens.revoke([revoked.row.prefix], by="root") == 1
    assert tokens.revoke([revoked.row.prefix], by="root") == 0
    for token in (expired, revoked):
        with pytest.raises(InvalidCredentialsError):
            asked_with(f"Bearer {token.text}")
    assert asked_with(f"Bearer {good.text}") is not None
    User.objects.update(is_active=False)
    with pytest.raises(InvalidCredentialsError):
        asked_with(f"Bearer {good.text}")


@pytest.mark.fault("G4")
def test_G4_stolen_rows_hold_nothing_that_opens(ada: User) -> None:
    issued = issue(ada, scopes=["a"])
    row = json.loads(serializers.serialize("json", Token.objects.all()))[0]["fields"]
    secret = issued.text.removeprefix(f"mcp_{issued.row.prefix}_")
    assert len(secret) == 43
    assert not [name for name, value in row.items() if secret in str(value) or issued.text in str(value)]
    assert row["digest"] == hashlib.sha256(issued.text.encode()).hexdigest()
    for stolen in (row["digest"], f"mcp_{row['prefix']}_{row['digest'][:43]}"):
        with pytest.raises(InvalidCredentialsError):
            asked_with(f"Bearer {stolen}")


@pytest.mark.fault("G4")
def test_G4_a_token_is_found_by_its_prefix_and_compared_in_constant_time(
    ada: User, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    compared: list[tuple[str, str]] = []
    compare = tokens.hmac.compare_digest

    def noted(ours: str, theirs: str) -> bool:
        compared.append((ours, theirs))
        return compare(ours, theirs)

    monkeypatch.setattr(tokens.hmac, "compare_digest", noted)
    text = issue(ada).text
    unknown = f"mcp_{secrets.token_hex(6)}_{text[-43:]}"
    for wrong in (altered(text), unknown):
        with django_assert_num_queries(1, using=Token.objects.db) as queries, pytest.raises(InvalidCredentialsError):
            asked_with(f"Bearer {wrong}")
        assert wrong not in str(queries.captured_queries)
    assert [len(theirs) for _, theirs in compared] == [64, 64]


@pytest.mark.fault("G4")
def test_G4_nothing_prints_a_token(ada: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    issued = issue(ada)
    asked_with(f"Bearer {issued.text}")
    assert issued.text not in f"{issued!r} {issued.row!r} {issued.row} {vars(issued.row)}"
    assert issued.text not in caplog.text


def test_use_is_noted_but_not_for_each_request(ada: User, django_assert_num_queries: Any) -> None:
    issued = issue(ada)
    asked_with(f"Bearer {issued.text}")
    first = Token.objects.get().last_used_at
    assert first is not None
    asked_with(f"Bearer {issued.text}")
    assert Token.objects.get().last_used_at == first
    Token.objects.update(last_used_at=first - timedelta(minutes=5))
    asked_with(f"Bearer {issued.text}")
    noted = Token.objects.get().last_used_at
    assert noted is not None
    assert noted >= first


def test_a_token_is_good_while_its_use_cannot_be_noted(ada: User, monkeypatch: Any, caplog: Any) -> None:
    def away(self: Any, **columns: Any) -> int:
        raise OperationalError("the database takes no writes")

    issued = issue(ada)
    monkeypatch.setattr(type(Token.objects.all()), "update", away)
    assert asked_with(f"Bearer {issued.text}") is not None
    [failure] = caplog.records
    assert failure.levelno == logging.WARNING
    assert issued.row.prefix in failure.message
    assert "the database takes no writes" in failure.message
    assert issued.text not in caplog.text
