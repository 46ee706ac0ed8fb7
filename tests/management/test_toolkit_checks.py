"""The system checks of a site that is its own authorization server."""

from typing import Any

import pytest

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.checks.toolkit import check_toolkit
from mcp_app.prompts import prompt
from mcp_app.resources import resource
from mcp_app.tools import tool
from tests.auth.own_server import page_headers
from tests.management.findings import found, only_hint

pytestmark = pytest.mark.usefixtures("_own_server")


ORIGIN = "https://example.com"
PAGE = page_headers(ORIGIN)
OURS, PROVIDER = PAGE["MCP"], PAGE["OAUTH2_PROVIDER"]


@pytest.fixture
def _own_server(settings: Any, configure: Any) -> None:
    settings.ROOT_URLCONF = "tests.auth.own_server_urls"
    settings.LOGIN_URL = "/admin/login/"
    settings.OAUTH2_PROVIDER = PROVIDER
    configure(**OURS)


def test_what_the_page_says_of_a_site_with_its_own_authorization_server_passes() -> None:
    assert found(deploy=True) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"PKCE_REQUIRED": False}, '["PKCE_REQUIRED"] = True'),
        ({"PKCE_REQUIRED": lambda client: True}, '["PKCE_REQUIRED"] = True'),
        ({"COMPLIANT_BCP_RFC9700_PKCE_METHOD": False}, "_PKCE_METHOD"),
        ({"COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": False}, "_IMPLICIT_GRANT"),
        ({"COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": False}, "_PASSWORD_GRANT"),
        ({"COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": False}, "_AUTHZ_RESPONSE_ISS"),
        ({"COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": False}, "_TOKEN_STORAGE"),
        ({"ALLOW_URI_WILDCARDS": True}, '["ALLOW_URI_WILDCARDS"] = False'),
        ({"ROTATE_REFRESH_TOKEN": False}, '["ROTATE_REFRESH_TOKEN"] = True'),
        ({"REFRESH_TOKEN_REUSE_PROTECTION": False}, '["REFRESH_TOKEN_REUSE_PROTECTION"] = True'),
        ({"OIDC_ISS_ENDPOINT": ""}, f"[\"OIDC_ISS_ENDPOINT\"] = '{ORIGIN}'"),
        ({"OIDC_ISS_ENDPOINT": f"{ORIGIN}/"}, f"[\"OIDC_ISS_ENDPOINT\"] = '{ORIGIN}'"),
        ({"SCOPES": {"files:write": "Change files"}, "DEFAULT_SCOPES": []}, '["SCOPES"]["mcp"] = '),
    ],
)
def test_what_the_authorization_server_would_do_that_it_must_not_is_found(
    settings: Any, change: dict[str, Any], line: str
) -> None:
    settings.OAUTH2_PROVIDER = {**PROVIDER, **change}
    assert line in only_hint("mcp_app.E027")


def test_a_scope_that_a_tool_a_resource_or_a_prompt_takes_and_nobody_can_have_is_found() -> None:
    with isolated_registries():

        @tool(scopes=["mcp", "files:read"])
        def find() -> None: ...

        @resource("notes://all", scopes=["notes"])
        def notes() -> str:
            return ""

        @prompt(scopes=["advice"])
        def advise() -> str:
            return ""

        [message] = found()
    assert message.id == "mcp_app.W038"
    assert message.msg.endswith("files:read, notes, advice.")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"OAUTH_ISSUERS": [ORIGIN, "https://login.example.com"]}, f'MCP["OAUTH_ISSUERS"] = ["{ORIGIN}"]'),
        ({"OAUTH_USER": f"{__name__}.only_hint"}, "Remove it"),
        ({"OAUTH_AUDIENCES": ["api://mcp"]}, "Remove it"),
        ({"OAUTH_REQUIRED_SCOPES": []}, 'MCP["OAUTH_REQUIRED_SCOPES"] = ["mcp"]'),
    ],
)
def test_a_setting_of_the_endpoint_that_does_not_fit_is_found(
    configure: Any, change: dict[str, Any], line: str
) -> None:
    configure(**{**OURS, **change})
    assert line in only_hint("mcp_app.E027")


def test_a_site_without_the_app_of_its_authorization_server_is_told(settings: Any) -> None:
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "oauth2_provider"]
    [message] = check_toolkit()  # alone, because the toolkit's own checks need the app once they are registered
    assert 'INSTALLED_APPS += ["oauth2_provider"]' in str(message.hint)


def test_a_site_without_the_pages_of_its_authorization_server_is_told(settings: Any) -> None:
    settings.ROOT_URLCONF = "mcpsite.urls"
    assert 'include("oauth2_provider.urls")' in only_hint("mcp_app.E028")


def test_an_issuer_below_the_sites_root_has_its_metadata_where_clients_look(settings: Any, configure: Any) -> None:
    configure(**{**OURS, "OAUTH_ISSUERS": [f"{ORIGIN}/oauth"]})
    settings.OAUTH2_PROVIDER = {**PROVIDER, "OIDC_ISS_ENDPOINT": f"{ORIGIN}/oauth"}
    assert found() == []


@pytest.mark.parametrize("login", ["/accounts/login/", "login"])
def test_a_site_where_nobody_can_log_in_is_told(settings: Any, login: str) -> None:
    settings.LOGIN_URL = login
    assert "LOGIN_URL" in only_hint("mcp_app.E028")
    settings.LOGIN_URL = "https://login.example.com/"
    assert found() == []


def test_a_consent_page_that_does_not_say_where_its_user_is_sent_is_found(settings: Any) -> None:
    settings.INSTALLED_APPS = ["oauth2_provider", *(n for n in settings.INSTALLED_APPS if n != "oauth2_provider")]
    assert "mcp_app before oauth2_provider" in only_hint("mcp_app.W016")
