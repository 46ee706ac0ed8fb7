"""The steps before a site serves, and their output."""

import json
import shlex
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.db import connections
from pytest_django import Settings

from mcp_app.auth import tokens
from mcp_app.auth.authentication import HeaderFields, HTTPConnection
from mcp_app.catalogue import tool_rows
from mcp_app.conf import settings as own_settings
from mcp_app.management.serving import addresses, preparation, serve, welcome
from mcp_app.models import Tool


@pytest.mark.django_db
def test_demo_administrator_can_log_in_and_is_made_once(settings: Settings) -> None:
    settings.DEBUG = True
    made = preparation.create_demo_admin()

    assert made is not None
    user = authenticate(username="admin", password=made.password)
    assert user is not None
    assert user.is_superuser
    assert preparation.create_demo_admin() is None


class EmailLogin(ModelBackend):
    """A site's login by email address."""

    def authenticate(self, request: Any, email: str | None = None, password: str | None = None, **kwargs: Any) -> None:
        return None


class NeedsRequest(ModelBackend):
    def authenticate(self, request: Any, username: Any = None, password: Any = None, **kwargs: Any) -> Any:
        return super().authenticate(request, username, password) if request.META else None


@pytest.mark.django_db
@pytest.mark.parametrize(("backend", "is_made"), [(EmailLogin, False), (NeedsRequest, True)])
def test_demo_administrator_is_made_if_the_password_may_work(
    settings: Settings, backend: type[ModelBackend], is_made: bool
) -> None:
    settings.DEBUG = True
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.{backend.__name__}"]
    assert (preparation.create_demo_admin() is not None) == is_made
    assert get_user_model().objects.filter(username="admin").exists() == is_made


@pytest.mark.parametrize(
    ("allowed", "host", "shown"),
    [
        ([], "127.0.0.1", "127.0.0.1"),
        ([], "::1", "[::1]"),
        (["localhost"], "127.0.0.1", "localhost"),
        (["*"], "127.0.0.1", "127.0.0.1"),
    ],
)
def test_admins_address_has_a_host_that_the_site_accepts(
    settings: Settings, allowed: list[str], host: str, shown: str
) -> None:
    settings.ALLOWED_HOSTS = allowed
    assert serve._admin_url(host, 8000) == f"http://{shown}:8000/admin/"


@pytest.mark.django_db(databases="__all__")
def test_demo_administrator_has_a_token_if_an_endpoint_takes_tokens(settings: Settings, configure: Any) -> None:
    settings.DEBUG = True
    configure(AUTHENTICATOR=tokens.AUTHENTICATOR)
    made = preparation.create_demo_admin()

    assert made is not None
    assert made.token is not None
    assert made.token not in repr(made)
    fields = HeaderFields([(b"authorization", f"Bearer {made.token}".encode())])
    principal = tokens.bearer(HTTPConnection(fields, "127.0.0.1", "/mcp"))
    assert principal is not None
    assert principal.label == "admin"


@pytest.mark.django_db
def test_demo_administrator_has_no_token_that_nothing_takes(settings: Settings, configure: Any) -> None:
    settings.DEBUG = True
    configure(AUTHENTICATOR="mcp_app.auth.logins.cookie")
    made = preparation.create_demo_admin()
    assert made is not None
    assert made.token is None
    assert welcome.tokens_of(["default"], None) == ""
    assert "Authorization" not in welcome.client_configuration("default", "http://x/mcp")


def test_clients_are_shown_where_a_token_goes_if_they_need_one(configure: Any) -> None:
    configure(AUTHENTICATOR=tokens.AUTHENTICATOR, ALLOW_ANONYMOUS=False)
    told = welcome.client_configuration("default", "http://x/mcp").splitlines()
    assert ["Bearer TOKEN" in line for line in told] == [True] * 4
    assert shlex.split(told[0])[-1] == "Authorization: Bearer TOKEN"
    for line in told[1:3]:
        [server] = next(iter(json.loads(line[line.index("{") :]).values())).values()
        assert server["headers"] == {"Authorization": "Bearer TOKEN"}
    configure(AUTHENTICATOR=tokens.AUTHENTICATOR, ALLOW_ANONYMOUS="local")
    assert "Authorization" not in welcome.client_configuration("default", "http://x/mcp")


@pytest.mark.django_db
def test_demo_administrator_is_not_made_outside_debug(settings: Settings) -> None:
    settings.DEBUG = False
    assert preparation.create_demo_admin() is None
    assert not get_user_model().objects.exists()


@pytest.mark.django_db
def test_demo_administrator_is_not_made_beside_another_superuser(settings: Settings) -> None:
    settings.DEBUG = True
    get_user_model().objects.create_superuser("somebody")
    assert preparation.create_demo_admin() is None


@pytest.mark.django_db
def test_demo_administrator_takes_nobodys_name(settings: Settings) -> None:
    settings.DEBUG = True
    get_user_model().objects.create_user("admin")
    assert preparation.create_demo_admin() is None
    assert not get_user_model().objects.get().is_superuser


@pytest.mark.django_db
def test_of_two_servers_that_start_at_once_one_makes_the_demo_administrator(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DEBUG = True

    def meanwhile(size: int) -> str:
        get_user_model().objects.create_superuser("admin", password="the other's")
        return "ours"

    monkeypatch.setattr(preparation.secrets, "token_urlsafe", meanwhile)
    assert preparation.create_demo_admin() is None
    assert authenticate(username="admin", password="the other's") is not None


@pytest.mark.django_db(databases="__all__")
def test_worker_consumes_the_default_queue_and_every_tools_own() -> None:
    Tool.objects.create(name="roman", location="x", queue="slow")
    assert tool_rows.queues() == {"mcp", "slow"}


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_told_from_the_rest(host: str, local: bool) -> None:
    assert addresses.is_loopback(host) is local


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("::1", "http://[::1]:80"),
        ("0.0.0.0", "http://localhost:80"),
        ("::", "http://localhost:80"),
    ],
)
def test_address_shown_is_one_that_a_client_can_use(host: str, url: str) -> None:
    assert addresses.base_url(host, 80) == url


def test_curl_line_survives_a_shell_whatever_the_arguments() -> None:
    arguments = {"text": 'it\'s "quoted" $HOME `id` \\ é'}
    words = shlex.split(welcome.curl("http://x/mcp", "tools/call", {"name": "echo", "arguments": arguments}))
    body = json.loads(words[words.index("-d") + 1])
    assert body["params"]["arguments"] == arguments
    assert "Mcp-Name: echo" in words


def test_settings_are_those_of_an_embedded_site() -> None:
    assert {django_settings.DATABASES[alias]["ENGINE"] for alias in django_settings.DATABASES} == {
        "django.db.backends.sqlite3"
    }


@pytest.mark.django_db(databases="__all__")
def test_databases_that_are_not_this_apps_are_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setitem(connections.databases, "reporting", {**connections.databases["default"]})
    monkeypatch.setattr(preparation, "pending_migrations", lambda alias: asked.append(alias) or 0)
    preparation.require_tables()
    assert preparation.prepare_databases() == 0
    assert "reporting" not in asked
    assert own_settings.DATABASE in asked
