"""The system checks of access and of stored data. Each finds one mistake and names the lines to add."""

from typing import Any

import pytest

from mcp_app.auth.authentication import HTTPConnection
from tests.management.findings import found, only_hint

NO_FUNCTION = "a text"


def not_called(connection: HTTPConnection) -> None:
    raise AssertionError("checks do not ask who asks")


async def not_plain(connection: HTTPConnection) -> None: ...


@pytest.mark.parametrize(
    ("authenticator", "expected"),
    [
        ("nowhere.caller", "mcp_app.E016"),
        (f"{__name__}.missing", "mcp_app.E016"),
        (f"{__name__}.NO_FUNCTION", "mcp_app.E016"),
        (f"{__name__}.not_plain", "mcp_app.E017"),
    ],
)
def test_authenticator_that_cannot_be_called_is_found(configure: Any, authenticator: str, expected: str) -> None:
    configure(AUTHENTICATOR=authenticator)
    assert "def caller(connection)" in only_hint(expected)


@pytest.mark.parametrize(
    ("redaction", "expected"),
    [
        ("nowhere.redact", "mcp_app.E022"),
        (f"{__name__}.NO_FUNCTION", "mcp_app.E022"),
        (f"{__name__}.not_plain", "mcp_app.E023"),
    ],
)
def test_redaction_that_cannot_be_called_is_found(configure: Any, redaction: str, expected: str) -> None:
    configure(REDACT=redaction)
    assert "def redact(kind, tool, value)" in only_hint(expected)
    configure(REDACT=f"{__name__}.not_called")
    assert found() == []


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        ("nowhere.factory", "mcp_app.E030"),
        (f"{__name__}.NO_FUNCTION", "mcp_app.E030"),
        (f"{__name__}.not_plain", "mcp_app.E031"),
    ],
)
def test_middleware_that_cannot_be_called_is_found(configure: Any, factory: str, expected: str) -> None:
    configure(MIDDLEWARE=[f"{__name__}.not_called", factory])
    assert "def factory(get_result)" in only_hint(expected)
    configure(MIDDLEWARE=[f"{__name__}.not_called"])
    assert found() == []


def test_site_that_serves_nobody_is_warned(configure: Any) -> None:
    configure(ALLOW_ANONYMOUS=False)
    assert 'MCP["AUTHENTICATOR"] = ' in only_hint("mcp_app.W008")
    configure(ALLOW_ANONYMOUS=None)
    assert "DEBUG = True" in only_hint("mcp_app.W008")
    configure(AUTHENTICATOR=f"{__name__}.not_called")
    assert found() == []


def test_site_that_serves_everybody_is_warned_before_it_is_deployed(configure: Any) -> None:
    configure(ALLOW_ANONYMOUS=True)
    assert found() == []
    assert 'MCP["ALLOW_ANONYMOUS"] = False' in only_hint("mcp_app.W009", deploy=True)


def test_a_login_that_no_page_can_use_or_that_does_not_end_is_warned(configure: Any, settings: Any) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR="mcp_app.auth.logins.cookie")
    assert 'MCP["ALLOWED_ORIGINS"] = ' in only_hint("mcp_app.W014")
    configure(ALLOWED_ORIGINS=["https://example.com"])
    assert found() == []
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    assert "SESSION_ENGINE = " in only_hint("mcp_app.W015")


OAUTH = {
    "ALLOW_ANONYMOUS": False,
    "AUTHENTICATOR": "mcp_app.auth.oauth.jwts.bearer",
    "OAUTH_RESOURCE": "https://example.com/mcp",
    "OAUTH_ISSUERS": ["https://login.example.com"],
    "OAUTH_JWKS_URLS": {"https://login.example.com": "https://login.example.com/keys"},
}
INTROSPECTION = {
    **OAUTH,
    "AUTHENTICATOR": "mcp_app.auth.oauth.introspection.bearer",
    "OAUTH_INTROSPECTION_URL": "https://login.example.com/introspect",
    "OAUTH_CLIENT_ID": "mcp",
    "OAUTH_CLIENT_SECRET": "secret",
}


@pytest.mark.parametrize("values", [OAUTH, INTROSPECTION])
def test_resource_server_passes(configure: Any, values: dict[str, Any]) -> None:
    configure(**values)
    assert found() == []


@pytest.mark.fault("G3")
@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({**OAUTH, "OAUTH_RESOURCE": None}, "OAUTH_RESOURCE"),
        ({**OAUTH, "OAUTH_ISSUERS": []}, "OAUTH_ISSUERS"),
        ({**OAUTH, "OAUTH_JWKS_URLS": {}}, "OAUTH_JWKS_URLS"),
        ({**OAUTH, "AUTHENTICATOR": f"{__name__}.not_called", "OAUTH_ISSUERS": []}, "OAUTH_ISSUERS"),
        ({**INTROSPECTION, "OAUTH_INTROSPECTION_URL": None}, "OAUTH_INTROSPECTION_URL"),
        ({**INTROSPECTION, "OAUTH_CLIENT_SECRET": ""}, "OAUTH_CLIENT_SECRET"),
    ],
)
def test_G3_what_a_resource_server_lacks_is_found(configure: Any, values: dict[str, Any], name: str) -> None:
    configure(**values)
    assert f'MCP["{name}"] = ' in only_hint("mcp_app.E019")


@pytest.mark.fault("G3")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"OAUTH_RESOURCE": "http://example.com/mcp"}, "mcp_app.E020"),
        ({"OAUTH_RESOURCE": "https://example.com/mcp/"}, "mcp_app.E020"),
        ({"OAUTH_RESOURCE": "https://example.com/mcp#here"}, "mcp_app.E020"),
        ({"OAUTH_RESOURCE": "https://example.com/mcp?a=b"}, "mcp_app.E020"),
        ({"OAUTH_RESOURCE": 'https://example.com/"mcp'}, "mcp_app.E020"),
        ({"OAUTH_RESOURCE": "example.com/mcp"}, "mcp_app.E020"),
        ({"OAUTH_RESOURCE": "https://[example.com/mcp"}, "mcp_app.E020"),
        (
            {
                "OAUTH_ISSUERS": ["http://login.example.com"],
                "OAUTH_JWKS_URLS": {"http://login.example.com": "https://login.example.com/keys"},
            },
            "mcp_app.E020",
        ),
        ({"OAUTH_JWKS_URLS": {"https://login.example.com": "file:///etc/keys"}}, "mcp_app.E020"),
        ({"OAUTH_INTROSPECTION_URL": "http://login.example.com"}, "mcp_app.E020"),
        ({"OAUTH_ALGORITHMS": ["RS256", "HS256"]}, "mcp_app.E020"),
        ({"OAUTH_ALGORITHMS": ["none"]}, "mcp_app.E020"),
        ({"OAUTH_REQUIRED_SCOPES": ["two words"]}, "mcp_app.E020"),
        ({"OAUTH_REQUIRED_SCOPES": ["offline_access"]}, "mcp_app.E020"),
        ({"OAUTH_USER": "nowhere.user"}, "mcp_app.E021"),
        ({"OAUTH_USER": f"{__name__}.NO_FUNCTION"}, "mcp_app.E021"),
        ({"OAUTH_USER": f"{__name__}.not_plain"}, "mcp_app.E021"),
        ({"OAUTH_INTROSPECTION_CACHE": 61}, "mcp_app.E007"),
        ({"OAUTH_JWKS_URLS": {"https://login.example.com": ["https://login.example.com"]}}, "mcp_app.E006"),
        ({"IMPLIED_SCOPES": {"files:write": "files:read"}}, "mcp_app.E006"),
        ({"OAUTH_CLIENT_SECRET": b"hush"}, "mcp_app.E006"),
    ],
)
def test_G3_a_setting_that_would_let_in_others_or_nobody_is_found(
    configure: Any, change: dict[str, Any], expected: str
) -> None:
    configure(**{**OAUTH, **change})
    assert [message.id for message in found()] == [expected]
    assert "hush" not in str(found())


def test_introspection_asks_one_issuer(configure: Any) -> None:
    configure(**{**INTROSPECTION, "OAUTH_ISSUERS": ["https://a.example.com", "https://b.example.com"]})
    only_hint("mcp_app.E020")
