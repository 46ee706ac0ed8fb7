"""Where the site is its own authorization server: `OAUTH2_PROVIDER` as the MCP specification has it, and the pages.

Asks for what would let others in, or nobody; the toolkit's own checks say the rest of RFC 9700 (`check --deploy`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004 - Django's name
from django.shortcuts import resolve_url
from django.template.loader import get_template
from django.urls import NoReverseMatch, Resolver404, resolve, reverse

from mcp_app.catalogue.registry import registered_tools
from mcp_app.checks import lines
from mcp_app.checks.oauth import TOOLKIT
from mcp_app.checks.values import readable, well_typed
from mcp_app.conf import settings

APP: Final = "oauth2_provider"
WELL_KNOWN: Final = "/.well-known/oauth-authorization-server"
DEMANDED: Final = {
    "PKCE_REQUIRED": True,
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
    "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
    "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
    "ALLOW_URI_WILDCARDS": False,
    "ROTATE_REFRESH_TOKEN": True,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
}
"""Of OAuth 2.1, RFC 9207 and MCP's security considerations; and that no token is in the database."""
_URLS: Final = (
    "from oauth2_provider.urls import metadata_urlpatterns",
    "urlpatterns += [",
    '    path("oauth/", include("oauth2_provider.urls")),',
    '    path("", include((metadata_urlpatterns, "oauth2_provider"), namespace="oauth2_metadata")),',
    "]",
)


@register(Tags.security)
def check_toolkit(**kwargs: Any) -> list[CheckMessage]:
    """An authorization server that issues tokens for this endpoint, to those alone who may have them."""
    if not readable() or not well_typed() or settings.AUTHENTICATOR != TOOLKIT or not settings.OAUTH_ISSUERS:
        return []
    if not apps.is_installed(APP):
        hint = lines.in_settings(f"INSTALLED_APPS += [\"{APP}\"]  # pip install 'django-mcp-app[oauth-server]'")
        return [Error(f"{APP} is not installed: nobody issues tokens.", hint=hint, id="mcp_app.E024")]
    return [*_settings(), *_pages(), *_consent()]


def _settings() -> Iterator[CheckMessage]:
    from oauth2_provider.settings import oauth2_settings

    [issuer, *others] = settings.OAUTH_ISSUERS
    wrong = {name: value for name, value in DEMANDED.items() if getattr(oauth2_settings, name) is not value}
    if issuer != oauth2_settings.OIDC_ISS_ENDPOINT:
        wrong["OIDC_ISS_ENDPOINT"] = issuer
    if wrong:
        hint = lines.in_settings(*(f'OAUTH2_PROVIDER["{name}"] = {value!r}' for name, value in wrong.items()))
        message = f"OAUTH2_PROVIDER is not what MCP asks of an authorization server: {', '.join(wrong)}."
        yield Error(message, hint=hint, id="mcp_app.E024")
    if others:
        message = 'MCP["OAUTH_ISSUERS"] names others than this site, whose tokens it does not know.'
        yield Error(message, hint=lines.in_settings(f'MCP["OAUTH_ISSUERS"] = ["{issuer}"]'), id="mcp_app.E024")
    for name, why in (
        ("OAUTH_USER", "a token's user is who gave it"),
        ("OAUTH_AUDIENCES", "a token names the resource itself"),
    ):
        if getattr(settings, name):
            message = f'MCP["{name}"] is for other authorization servers: here {why}.'
            yield Error(message, hint="Remove it from the settings' MCP.", id="mcp_app.E024")
    yield from _scopes(oauth2_settings)


def _scopes(oauth2_settings: Any) -> Iterator[CheckMessage]:
    from oauth2_provider.scopes import SettingsScopes

    if oauth2_settings.SCOPES_BACKEND_CLASS is not SettingsScopes:
        return  # it may have to ask a database
    taken = [*settings.OAUTH_REQUIRED_SCOPES]
    for tool in registered_tools().values():
        taken.extend(tool.access.scopes)
    if unknown := [name for name in dict.fromkeys(taken) if name not in oauth2_settings.SCOPES]:
        message = f"Nobody can have the scopes that are taken here: {', '.join(unknown)}."
        hint = lines.in_settings(*(f'OAUTH2_PROVIDER["SCOPES"]["{name}"] = "…"  # for users' for name in unknown))
        yield Error(message, hint=hint, id="mcp_app.E024")


def _pages() -> Iterator[CheckMessage]:
    missing = [name for name in ("authorize", "token") if not _is_named(f"{APP}:{name}")]
    if not _serves_metadata(path := WELL_KNOWN + urlsplit(settings.OAUTH_ISSUERS[0]).path.rstrip("/")):
        missing.append(path)
    if missing:
        hint = f"In {lines.package()}/urls.py:{lines.indented(*_URLS)}"
        message = f"Clients do not find the authorization server: there is no {', no '.join(missing)}."
        yield Error(message, hint=hint, id="mcp_app.E025")
    login = str(django_settings.LOGIN_URL)
    if not _is_page(login):
        message = f"Users cannot log in before they agree: there is no page at LOGIN_URL, {login}."
        yield Error(message, hint=lines.in_settings('LOGIN_URL = "…"'), id="mcp_app.E025")


def _is_named(name: str) -> bool:
    try:
        reverse(name)
    except NoReverseMatch:
        return False
    return True


def _serves_metadata(path: str) -> bool:
    from oauth2_provider.views import OAuthServerMetadataView

    try:
        view = getattr(resolve(path).func, "view_class", object)
    except Resolver404:
        return False
    return issubclass(view, OAuthServerMetadataView)


def _is_page(address: str) -> bool:
    try:
        path = resolve_url(address)
        return not path.startswith("/") or resolve(urlsplit(path).path) is not None
    except (NoReverseMatch, Resolver404):
        return False


def _consent() -> Iterator[CheckMessage]:
    page: Any = get_template("oauth2_provider/authorize.html")
    if Path(page.origin.name).is_relative_to(apps.get_app_config(APP).path):
        message = "Users who are asked to agree are not shown where they are sent."
        hint = f"In INSTALLED_APPS, put mcp_app before {APP}; a page of your own shows the host of redirect_uri."
        yield Warning(message, hint=hint, id="mcp_app.W013")
