"""Tokens in the admin: users make them for themselves, superusers for others. Shown once, revoked at once."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from mcp_app.auth import tokens
from mcp_app.auth.authentication import HeaderFields, HTTPConnection, InvalidCredentialsError
from mcp_app.auth.principal import Principal
from mcp_app.auth.tokens import IssuedToken, bearer
from mcp_app.models import Token
from tests.admin.pages import words
from tests.transport import left_behind

pytestmark = pytest.mark.django_db(databases="__all__")

LIST = "/admin/mcp_app/token/"
MAKE, REVOKE, VIEW = "add_token", "change_token", "view_token"
TOKEN = re.compile(r"mcp_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")

LogIn = Callable[..., Client]


def make(client: Client, **fields: Any) -> Any:
    return client.post(f"{LIST}add/", {"name": "her laptop", "scopes": "", "days": "", **fields})


def shown(response: Any) -> str:
    """Return the only token on a page."""
    [token] = TOKEN.findall(response.content.decode())
    return str(token)


def principal(token: str) -> Principal | None:
    return bearer(HTTPConnection(HeaderFields([(b"Authorization", f"Bearer {token}".encode())]), "192.0.2.1", "/mcp"))


def page(row: Token, name: str = "change") -> str:
    return f"{LIST}{row.pk}/{name}/"


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def issued(ada: User) -> IssuedToken:
    return tokens.issue(ada, "her laptop", by="root", scopes=["read"])


def test_a_token_is_made_and_shown_once(log_in: LogIn) -> None:
    maker = log_in(MAKE, VIEW)
    response = make(maker, scopes="write read  read", days="7")
    token = shown(response)
    assert "no-store" in response["Cache-Control"]
    assert "only once" in words(response)
    found = principal(token)
    assert found is not None
    assert (found.label, found.scopes) == ("grace", {"read", "write"})
    row = Token.objects.get()
    assert (row.name, row.created_by, row.user_label) == ("her laptop", "grace", "grace")
    assert timedelta(days=6) < row.expires_at - datetime.now(UTC) <= timedelta(days=7)
    for address in (LIST, page(row), page(row, "history"), "/admin/", "/admin/logout/"):
        assert token not in maker.get(address).content.decode()
    secret = token.split("_", 2)[2]
    assert left_behind.find_in_rows(secret) == set()
    assert not any(secret in str(session.get_decoded()) for session in Session.objects.all())
    assert not any(secret in str(cookie) for cookie in maker.cookies.values())


def test_what_was_made_and_revoked_is_in_the_history(log_in: LogIn) -> None:
    both = log_in(MAKE, REVOKE)
    make(both)
    both.post(page(Token.objects.get(), "revoke"))
    entries = [(entry.object_id, entry.get_change_message()) for entry in LogEntry.objects.order_by("pk")]
    assert entries == [(str(Token.objects.get().pk), "Added."), (str(Token.objects.get().pk), "Revoked.")]


def test_a_superuser_makes_them_for_others(log_in: LogIn, ada: User) -> None:
    root = log_in(is_superuser=True)
    found = principal(shown(make(root, username="ada")))
    assert found is not None
    assert found.user_id == str(ada.pk)
    assert Token.objects.get().created_by == "grace"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"username": "nobody"}, "active user"),
        ({"username": "gone"}, "active user"),
        ({"name": ""}, "required"),
        ({"scopes": 'a"b'}, "quotes"),
        ({"days": "0"}, "greater than or equal to 1"),
    ],
)
def test_what_does_not_make_sense_makes_none(log_in: LogIn, fields: dict[str, str], expected: str) -> None:
    User.objects.create_user("gone", is_active=False)
    response = make(log_in(is_superuser=True), **fields)
    [(field, [told])] = response.context["adminform"].errors.items()
    assert [field] == [*fields]
    assert expected in told
    assert told in words(response)
    assert not Token.objects.exists()


@pytest.mark.fault("G8")
def test_nobody_else_makes_one_that_does_what_another_may_do(log_in: LogIn, ada: User) -> None:
    maker = log_in(MAKE)
    assert "username" not in maker.get(f"{LIST}add/").content.decode()
    assert make(maker, username="ada").status_code == 200
    assert not Token.objects.exists()
    assert make(log_in(VIEW, REVOKE, name="alan")).status_code == 403
    assert not Token.objects.exists()


def test_a_revoked_token_is_nobodys_at_once(log_in: LogIn, issued: IssuedToken) -> None:
    assert principal(issued.text)
    revoker = log_in(REVOKE)
    assert "Revoke" in words(revoker.get(page(issued.row)))
    answer = revoker.post(page(issued.row, "revoke"), follow=True)
    assert "Revoked: 1." in words(answer)
    with pytest.raises(InvalidCredentialsError):
        principal(issued.text)
    row = Token.objects.get()
    assert (row.revoked_by, row.revoked_at is None) == ("grace", False)
    assert "Revoked before: 1." in words(revoker.post(page(issued.row, "revoke"), follow=True))
    assert Token.objects.get().revoked_at == row.revoked_at
    assert 'value="Revoke"' not in revoker.get(page(row)).content.decode()


def test_several_are_revoked_from_the_list(log_in: LogIn, ada: User) -> None:
    rows = [tokens.issue(ada, name, by="root").row for name in ("a", "b", "c")]
    action = {"action": "revoke_selected", "_selected_action": [rows[0].pk, rows[1].pk], "index": "0"}
    assert "Revoked: 2." in words(log_in(REVOKE).post(LIST, action, follow=True))
    assert [row.name for row in Token.objects.filter(revoked_at__isnull=True)] == ["c"]


@pytest.mark.fault("G8")
def test_who_may_only_look_revokes_and_changes_nothing(log_in: LogIn, issued: IssuedToken) -> None:
    viewer = log_in(VIEW)
    assert "her laptop" in words(viewer.get(LIST))
    assert 'value="Revoke"' not in viewer.get(page(issued.row)).content.decode()
    assert viewer.post(page(issued.row, "revoke")).status_code == 403
    assert viewer.post(page(issued.row), {"name": "mine"}).status_code == 403
    viewer.post(LIST, {"action": "revoke_selected", "_selected_action": issued.row.pk, "index": "0"})
    assert principal(issued.text)
    assert Token.objects.get().name == "her laptop"


@pytest.mark.fault("G8")
def test_nobody_edits_or_deletes_one(log_in: LogIn, issued: IssuedToken) -> None:
    root = log_in(is_superuser=True)
    assert root.post(page(issued.row), {"name": "mine", "digest": "x"}).status_code == 403
    assert root.post(page(issued.row, "delete"), {"post": "yes"}).status_code == 403
    assert root.get(page(issued.row, "revoke")).status_code == 405
    assert root.post(f"{LIST}4711/revoke/").status_code == 404
    assert Token.objects.get().name == "her laptop"


@pytest.mark.fault("G8")
def test_another_sites_form_makes_and_revokes_nothing(log_in: LogIn, issued: IssuedToken) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.create_superuser("grace"))
    assert make(strict).status_code == strict.post(page(issued.row, "revoke")).status_code == 403
    assert Token.objects.count() == 1
    assert principal(issued.text)


def test_who_may_do_nothing_with_tokens_sees_none(log_in: LogIn, issued: IssuedToken) -> None:
    nobody = log_in("view_request")
    for address in (LIST, f"{LIST}add/", page(issued.row)):
        assert nobody.get(address).status_code == 403


@pytest.mark.fault("G4")
def test_no_page_and_no_look_up_tells_a_digest(log_in: LogIn, issued: IssuedToken) -> None:
    root = log_in(is_superuser=True)
    for address in (LIST, page(issued.row)):
        assert issued.row.digest not in root.get(address).content.decode()
    for lookup in ("digest__startswith", "digest", "user_id"):
        assert root.get(LIST, {lookup: "a"}).status_code in (302, 400)


@pytest.mark.fault("G7")
def test_names_are_words(log_in: LogIn, ada: User) -> None:
    row = tokens.issue(ada, "<b>x</b>\u202e", by="<i>y</i>").row
    root = log_in(is_superuser=True)
    pages = [root.get(LIST), root.get(page(row)), make(root, name="<b>x</b>")]
    assert all(b"<b>x" not in response.content and b"<i>y" not in response.content for response in pages)


def test_no_page_needs_a_script_or_style_of_its_own(log_in: LogIn, issued: IssuedToken) -> None:
    root = log_in(is_superuser=True)
    for response in (make(root), root.get(page(issued.row))):
        text = response.content.decode()
        assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=", text)
