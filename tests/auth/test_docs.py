"""The authenticators of docs/how-to/adding.md and docs/how-to/access.md, and the tokens of docs/how-to/tokens.md."""

import secrets
import shlex
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management import call_command

from mcp_app.auth import tokens
from mcp_app.auth.authentication import HeaderFields, HTTPConnection, InvalidCredentialsError
from mcp_app.auth.oauth import jwts
from mcp_app.management.serving import welcome
from mcp_app.models import Token
from tests.auth.authorization_server import AuthorizationServer
from tests.docs.pages import Snippet, executed, snippet
from tests.management.findings import found

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


def asked_with(authorization: str) -> HTTPConnection:
    return HTTPConnection(HeaderFields([(b"authorization", authorization.encode())]), "192.0.2.1", "/mcp")


def run_commands(block: Snippet) -> None:
    """Run the `manage.py` commands of a block."""
    for line in block.text.splitlines():
        python, manage, *words = shlex.split(line)
        assert (python, manage) == ("python", "manage.py")
        call_command(*words)


def test_a_key_is_a_users_and_another_nobodys(settings: Any) -> None:
    bearer_user = executed(snippet("how-to/adding.md#choose-who-may-call"))["bearer_user"]
    settings.MCP_KEYS = {"ann": "anns-key", "gone": "key-of-nobody", "ben": "bens-key"}
    ann = User.objects.create_user("ann")
    User.objects.create_user("ben", is_active=False)
    assert bearer_user(asked_with("Bearer anns-key")) == ann
    assert bearer_user(HTTPConnection(HeaderFields([]), "192.0.2.1", "/mcp")) is None
    for shown in ("Bearer another", "Bearer key-of-nobody", "Bearer bens-key", "anns-key", ""):
        with pytest.raises(InvalidCredentialsError):
            bearer_user(asked_with(shown))


def test_a_partner_is_a_caller_and_no_user_of_the_site() -> None:
    partner = executed(snippet("how-to/access.md#a-function-of-your-own"), partner_of={"a-key": "Ann & Co."}.get)[
        "partner"
    ]

    def shows(key: bytes) -> HTTPConnection:
        return HTTPConnection(HeaderFields([(b"x-api-key", key)]), "192.0.2.1", "/mcp")

    known = partner(shows(b"a-key"))
    assert (known.issuer, known.subject, known.user_id, known.scopes) == ("shop", "Ann & Co.", "", {"orders:read"})
    assert partner(asked_with("Bearer a-key")) is None
    with pytest.raises(InvalidCredentialsError):
        partner(shows(b"another"))


def test_a_token_is_made_for_everything_or_for_days_and_scopes(capsys: pytest.CaptureFixture[str]) -> None:
    User.objects.create_user("ada")
    run_commands(snippet("how-to/tokens.md#or-on-the-command-line"))
    unlimited = tokens.bearer(asked_with(f"Bearer {capsys.readouterr().out.strip()}"))
    assert unlimited is not None
    assert (unlimited.label, unlimited.scopes, Token.objects.get().expires_at) == ("ada", None, None)
    run_commands(snippet("how-to/tokens.md#or-on-the-command-line:2"))
    known = tokens.bearer(asked_with(f"Bearer {capsys.readouterr().out.strip()}"))
    assert known is not None
    assert (known.label, known.scopes) == ("ada", {"orders:read", "files:write"})
    row = Token.objects.get(name="reader")
    assert row.expires_at is not None
    assert timedelta(days=89) < row.expires_at - datetime.now(UTC) <= timedelta(days=90)


def test_the_line_for_a_client_is_the_one_that_mcp_serve_prints(configure: Any) -> None:
    settings = executed(snippet("how-to/tokens.md#give-a-user-a-token"))["MCP"]
    configure(**settings, SERVER_NAME="mysite", ALLOW_ANONYMOUS=None)
    printed = welcome.client_configuration("default", "https://example.com/mcp").splitlines()[0]
    assert printed.endswith(f" {snippet('how-to/tokens.md#paste-it-into-the-client').text.strip()}")


def test_a_token_is_listed_and_revoked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    block = snippet("how-to/tokens.md#revoke-it")
    prefix = block.text.split()[-1]
    fixed = SimpleNamespace(token_hex=lambda size: prefix, token_urlsafe=secrets.token_urlsafe)
    monkeypatch.setattr(tokens, "secrets", fixed)
    issued = tokens.issue(User.objects.create_user("ada"), "laptop", by="test")
    assert tokens.bearer(asked_with(f"Bearer {issued.text}")) is not None
    run_commands(block)
    listed, revoked = capsys.readouterr().out.splitlines()
    assert listed.startswith(prefix)
    assert revoked == f"{prefix}: revoked"
    with pytest.raises(InvalidCredentialsError):
        tokens.bearer(asked_with(f"Bearer {issued.text}"))


def test_two_kinds_of_tokens_are_told_apart(
    protected: Any, settings: Any, issuer: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = executed(snippet("how-to/access.md#more-than-one-kind"))
    for name in ("bearer", "any_of_ours"):
        monkeypatch.setitem(globals(), name, names[name])
    protected("jwts", AUTHENTICATOR=f"{__name__}.bearer")
    settings.DEBUG = True  # its issuer is on this machine, without TLS
    assert found() == []

    ann = User.objects.create_user("ann")
    own = f"Bearer {tokens.issue(ann, 'laptop', by='test').text}"
    for function in (names["bearer"], names["any_of_ours"]):
        assert function(asked_with(own)).user_id == str(ann.pk)
    assert names["bearer"](asked_with(f"Bearer {issuer.token()}")).issuer == issuer.issuer
    with pytest.raises(InvalidCredentialsError):
        names["bearer"](asked_with("Bearer mcp_of_nobody"))
    assert names["any_of_ours"](HTTPConnection(HeaderFields([]), "192.0.2.1", "/mcp")) is None


def test_a_token_of_anothers_is_a_user_of_the_site_by_their_address(
    protected: Any, settings: Any, issuer: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_of = executed(snippet("how-to/access.md#users"), get_user_model=get_user_model)["user_of"]
    monkeypatch.setitem(globals(), "user_of", user_of)
    protected("jwts", OAUTH_USER=f"{__name__}.user_of")
    settings.DEBUG = True  # its issuer is on this machine, without TLS
    assert found() == []

    ann = User.objects.create_user("ann", email="ann@example.com")
    known = jwts.bearer(asked_with(f"Bearer {issuer.token(email=ann.email, email_verified=True)}"))
    unproved = jwts.bearer(asked_with(f"Bearer {issuer.token(email=ann.email)}"))
    assert known is not None
    assert unproved is not None
    assert (known.user_id, unproved.user_id) == (str(ann.pk), "")
