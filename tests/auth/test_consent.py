"""The consent page names the address to which the user will be sent back."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from oauth2_provider.models import Application

from mcp_app.templatetags.mcp_consent import host, is_on_this_machine
from tests.auth.own_server import page_headers

ORIGIN = "https://mcp.example.com"
HERE, ELSEWHERE = f"{ORIGIN}/mcp", f"{ORIGIN}/api"


@pytest.mark.parametrize(
    ("uri", "shown", "here"),
    [
        ("https://editor.example.org/back", "editor.example.org", False),
        ("https://bank.example.com:443@evil.example:8443/bank.example.com", "evil.example:8443", False),
        ("https://localhost.evil.example/", "localhost.evil.example", False),
        ("http://127.0.0.1:49152/back", "127.0.0.1:49152", True),
        ("http://[::1]:49152/back", "[::1]:49152", True),
        ("http://LOCALHOST/back", "LOCALHOST", True),
        ("org.example.editor:/back", "org.example.editor:", True),
    ],
)
def test_the_host_is_shown_as_it_is_and_a_program_of_the_users_own_machine_is_known(
    uri: str, shown: str, here: bool
) -> None:
    assert (host(uri), is_on_this_machine(uri)) == (shown, here)


@pytest.fixture
def browser(settings: Any, configure: Any, db: None) -> Client:
    """A user who is logged in at a site that also issues tokens for other purposes."""
    values = page_headers(ORIGIN)
    scopes = {**values["OAUTH2_PROVIDER"]["SCOPES"], "calendar": "See your dates"}
    settings.OAUTH2_PROVIDER = {**values["OAUTH2_PROVIDER"], "SCOPES": scopes}
    settings.ROOT_URLCONF = "tests.auth.own_server_urls"
    configure(**values["MCP"])
    browser = Client()
    browser.force_login(User.objects.create_user("ada"))
    return browser


def shown(browser: Client, **asked: str) -> str:
    """The consent page for a client that requests this."""
    client = Application.objects.create(
        name="Editor",
        client_id="editor",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="https://editor.example.org/back",
    )
    query = {
        "client_id": client.client_id,
        "response_type": "code",
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
    }
    page = browser.get("/oauth/authorize/", {**query, **asked})
    assert page.status_code == 200
    return page.content.decode()


@pytest.mark.parametrize(
    "asked",
    [
        {"scope": "mcp", "resource": HERE},
        {"scope": "calendar", "resource": HERE},
        {"scope": "calendar mcp"},  # it may name its resource later, when it fetches its token
        {},
    ],
    ids=["resource and scope", "resource", "scope", "nothing: what is given then"],
)
def test_who_may_let_a_client_in_here_is_shown_where_they_are_sent(browser: Client, asked: dict[str, str]) -> None:
    assert "<strong>editor.example.org</strong>" in shown(browser, **asked)


@pytest.mark.parametrize("asked", [{}, {"resource": ELSEWHERE}], ids=["no resource", "another resource"])
def test_a_client_that_is_let_in_for_other_things_has_the_page_that_it_would_have(
    browser: Client, settings: Any, asked: dict[str, str]
) -> None:
    page = shown(browser, scope="calendar", **asked)
    assert "See your dates" in page
    assert "editor.example.org</strong>" not in page
    Application.objects.all().delete()
    settings.INSTALLED_APPS = ["oauth2_provider", *(n for n in settings.INSTALLED_APPS if n != "oauth2_provider")]
    alone = shown(browser, scope="calendar", **asked)
    assert _without_forgery_token(page) == _without_forgery_token(alone)


def test_where_no_endpoint_takes_its_tokens_the_toolkit_s_page_stays(browser: Client, configure: Any) -> None:
    configure(OAUTH_ISSUERS=["https://login.example.com"])
    assert "editor.example.org</strong>" not in shown(browser, scope="mcp", resource=HERE)


def _without_forgery_token(page: str) -> list[str]:
    return re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", page).split()
