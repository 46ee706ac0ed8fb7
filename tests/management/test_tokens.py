"""`mcp token`: a token is shown once, listed without its secret, and revoked at once."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from mcp_app.auth.authentication import HeaderFields, HTTPConnection, InvalidCredentialsError
from mcp_app.auth.tokens import bearer

pytestmark = pytest.mark.django_db(databases="__all__")


def token(*arguments: str) -> str:
    call_command("mcp", "token", *arguments, stdout=(output := StringIO()))
    return output.getvalue().strip()


def is_good(text: str) -> bool:
    connection = HTTPConnection(HeaderFields([(b"authorization", f"Bearer {text}".encode())]), "", "/mcp")
    try:
        return bearer(connection) is not None
    except InvalidCredentialsError:
        return False


@pytest.mark.parametrize("by", ["prefix", "whole token"])
def test_a_token_is_made_listed_and_revoked(by: str) -> None:
    User.objects.create_user("ada")
    text = token("create", "ada", "--name", "her laptop\x1b[31m", "--scope", "a", "--scope", "b", "--days", "30")
    prefix = text.split("_")[1]
    assert is_good(text)
    listed = token("list")
    assert text not in listed
    assert "\x1b" not in listed
    assert f"{prefix}  until 20" in listed
    assert "ada  her laptop" in listed
    assert "[a b]" in listed
    assert token("revoke", prefix if by == "prefix" else text) == f"{prefix}: revoked"
    assert not is_good(text)
    assert f"{prefix}  revoked 20" in token("list")
    with pytest.raises(CommandError, match="No unrevoked token"):
        token("revoke", prefix)


def test_who_is_no_active_user_gets_none() -> None:
    User.objects.create_user("bob", is_active=False)
    for name in ("bob", "nobody"):
        with pytest.raises(CommandError, match="no active user"):
            token("create", name, "--name", "x")
