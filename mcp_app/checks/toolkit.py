"""Check a site that is its own authorization server: `OAUTH2_PROVIDER`, and the pages for users.

The checks report settings that would let the wrong clients in, or none. The toolkit has its own
checks for the other parts of RFC 9700 (`check --deploy`).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004 - Django's name
from django.shortcuts import resolve_url
from django.template.loader import get_template
from django.urls import NoReverseMatch, Resolver404, resolve, reverse

from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.catalogue.registry import registered_tools
from mcp_app.catalogue.resources import registered_resources
from mcp_app.checks import lines
from mcp_app.checks.oauth import TOOLKIT
from mcp_app.checks.values import is_readable, is_well_typed
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
"""Required by OAuth 2.1, RFC 9207 and MCP's security considerations.

With `TOKEN_STORAGE`, the database has only hashes of tokens.
"""
_URLS: Final = (
    "from oauth2_provider.urls import metadata_urlpatterns",
    "urlpatterns += [",
    '    path("oauth/", include("oauth2_provider.urls")),',
    '    path("", include((metadata_urlpatterns, "oauth2_provider"), namespace="oauth2_metadata")),',
    "]",
)


@register(Tags.security)
def check_toolkit(**kwargs: Any) -> list[CheckMessage]:
    """Check that the authorization server can issue tokens for the endpoints, safely."""
    if not is_readable() or not is_well_typed():
        return []
    own = {endpoint: settings.at(endpoint) for endpoint in settings.endpoints}
    used = [name for name, each in own.items() if each.AUTHENTICATOR == TOOLKIT and each.OAUTH_ISSUERS]
    if not used:
        return []
    if not apps.is_installed(APP):
        hint = lines.in_settings(f"INSTALLED_APPS += [\"{APP}\"]  # pip install 'django-mcp-app[oauth-server]'")
        return [Error(f"{APP} is not installed: no tokens are issued.", hint=hint, id="mcp_app.E027")]
    found: list[CheckMessage] = []
    for endpoint in used:
        # A setting that endpoints share is reported only once.
        found += [message for message in (*_check_settings(endpoint), *_check_pages(endpoint)) if message not in found]
    return [*found, *_check_consent_page()]


def _check_settings(endpoint: str) -> Iterator[CheckMessage]:
    from oauth2_provider.settings import oauth2_settings

    own, named = settings.at(endpoint), partial(lines.setting, endpoint=endpoint)
    [issuer, *others] = own.OAUTH_ISSUERS
    wrong = {name: value for name, value in DEMANDED.items() if getattr(oauth2_settings, name) is not value}
    if issuer != oauth2_settings.OIDC_ISS_ENDPOINT:
        wrong["OIDC_ISS_ENDPOINT"] = issuer
    if wrong:
        hint = lines.in_settings(*(f'OAUTH2_PROVIDER["{name}"] = {value!r}' for name, value in wrong.items()))
        message = (
            "OAUTH2_PROVIDER does not have the values that MCP requires of an authorization server: "
            f"{', '.join(wrong)}."
        )
        yield Error(message, hint=hint, id="mcp_app.E027")
    if others:
        message = f"{named('OAUTH_ISSUERS')} names issuers other than this site, whose tokens it cannot verify."
        hint = lines.in_settings(f'{named("OAUTH_ISSUERS")} = ["{issuer}"]')
        yield Error(message, hint=hint, id="mcp_app.E027")
    for name, why in (
        ("OAUTH_USER", "the user of a token is the one who authorized it"),
        ("OAUTH_AUDIENCES", "a token names the resource itself"),
    ):
        if getattr(own, name):
            message = f"{named(name)} is for other authorization servers: here {why}."
            yield Error(message, hint="Remove it from the settings' MCP.", id="mcp_app.E027")
    if not own.OAUTH_REQUIRED_SCOPES:
        # A client that was authorized without a resource can name one when it fetches or renews its
        # token.
        required = named("OAUTH_REQUIRED_SCOPES")
        message = f"{required} is empty: any client that a user has authorized at this site may call tools."
        yield Error(message, hint=lines.in_settings(f'{required} = ["mcp"]'), id="mcp_app.E027")
    yield from _check_scopes(endpoint, oauth2_settings)


def _check_scopes(endpoint: str, oauth2_settings: Any) -> Iterator[CheckMessage]:
    from oauth2_provider.scopes import SettingsScopes

    if oauth2_settings.SCOPES_BACKEND_CLASS is not SettingsScopes:
        return  # another backend may query a database
    required: list[str] = settings.at(endpoint).OAUTH_REQUIRED_SCOPES
    taken = [*required]
    for registered in (registered_tools(), registered_resources(), registered_prompts()):
        for declared in registered.values():
            taken.extend(declared.access.scopes if endpoint in declared.access.endpoints else ())
    if unknown := [name for name in dict.fromkeys(taken) if name not in oauth2_settings.SCOPES]:
        message = f"Scopes are required that no user can grant: {', '.join(unknown)}."
        hint = lines.in_settings(*(f'OAUTH2_PROVIDER["SCOPES"]["{name}"] = "…"  # for users' for name in unknown))
        if set(required) & set(unknown):
            yield Error(message, hint=hint, id="mcp_app.E027")
        else:
            yield Warning(message, hint=hint, id="mcp_app.W038")


def _check_pages(endpoint: str) -> Iterator[CheckMessage]:
    missing = [name for name in ("authorize", "token") if not _is_named(f"{APP}:{name}")]
    if not _serves_metadata(path := WELL_KNOWN + urlsplit(settings.at(endpoint).OAUTH_ISSUERS[0]).path.rstrip("/")):
        missing.append(path)
    if missing:
        hint = f"In {lines.package()}/urls.py:{lines.indented(*_URLS)}"
        message = f"Clients cannot find the authorization server: there is no {', no '.join(missing)}."
        yield Error(message, hint=hint, id="mcp_app.E028")
    login = str(django_settings.LOGIN_URL)
    if not _is_page(login):
        message = f"Users cannot log in to authorize a client: there is no page at LOGIN_URL, {login}."
        yield Error(message, hint=lines.in_settings('LOGIN_URL = "…"'), id="mcp_app.E028")


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


def _check_consent_page() -> Iterator[CheckMessage]:
    page: Any = get_template("oauth2_provider/authorize.html")
    if Path(page.origin.name).is_relative_to(apps.get_app_config(APP).path):
        message = "The page that asks users to authorize a client does not show where they are sent."
        hint = (
            f"In INSTALLED_APPS, put mcp_app before {APP}, or write a page of your own that shows the "
            "host of redirect_uri."
        )
        yield Warning(message, hint=hint, id="mcp_app.W016")
