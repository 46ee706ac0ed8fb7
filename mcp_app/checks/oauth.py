"""Check `MCP["OAUTH_…"]`: an endpoint has all settings of a resource server, and they are safe."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

from mcp_app.auth.oauth.claims import ASYMMETRIC
from mcp_app.checks import lines
from mcp_app.checks.functions import is_async
from mcp_app.checks.values import is_readable, is_well_typed
from mcp_app.conf import settings
from mcp_app.endpoint_settings import EndpointSettings

JWTS: Final = "mcp_app.auth.oauth.jwts.bearer"
INTROSPECTION: Final = "mcp_app.auth.oauth.introspection.bearer"
TOOLKIT: Final = "mcp_app.auth.oauth.toolkit.bearer"
_URL: Final = re.compile(r"[\x21\x23-\x5B\x5D\x5F\x61-\x7A\x7E]+")
"""The characters of RFC 3986 that do not end a quoted string."""
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""RFC 6749 §3.3."""


@register(Tags.security)
def check_oauth(**kwargs: Any) -> list[CheckMessage]:
    """Check that a resource server has an identifier, issuers, and a way to verify their tokens."""
    if not is_readable() or not is_well_typed():
        return []
    found: list[CheckMessage] = []
    for endpoint in settings.endpoints:
        if _is_used(settings.at(endpoint)):
            wrong = (*_find_missing(endpoint), *_find_invalid(endpoint), *_check_user_function(endpoint))
            # A setting that endpoints share is reported only once.
            found += [message for message in wrong if message not in found]
    return found


def _is_used(own: EndpointSettings) -> bool:
    ours = own.AUTHENTICATOR in (JWTS, INTROSPECTION, TOOLKIT)
    return ours or own.OAUTH_RESOURCE is not None or (bool(own.OAUTH_ISSUERS) and not settings.ENDPOINTS)


def _find_missing(endpoint: str) -> Iterator[CheckMessage]:
    own, named = settings.at(endpoint), partial(lines.setting, endpoint=endpoint)
    if own.OAUTH_RESOURCE is None:
        why = "no token can have this endpoint as its audience"
        yield _missing_setting(named("OAUTH_RESOURCE"), '"https://example.com/mcp"', why)
    if not own.OAUTH_ISSUERS:
        why = "there is no issuer whose tokens are accepted"
        yield _missing_setting(named("OAUTH_ISSUERS"), '["https://login.example.com"]', why)
    if own.AUTHENTICATOR == JWTS:
        for issuer in own.OAUTH_ISSUERS:
            if issuer not in own.OAUTH_JWKS_URLS:
                value = f'{{"{issuer}": "https://…"}}'
                yield _missing_setting(
                    named("OAUTH_JWKS_URLS"), value, f"there is no way to verify the tokens of {issuer}"
                )
    if own.AUTHENTICATOR == INTROSPECTION:
        for name in ("OAUTH_INTROSPECTION_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET"):
            if not getattr(own, name):
                yield _missing_setting(named(name), '"…"', "the issuer cannot be asked about tokens")
        if len(own.OAUTH_ISSUERS) > 1:
            yield _invalid_setting(f"{named('OAUTH_ISSUERS')} names more than one, and introspection asks one.")


def _find_invalid(endpoint: str) -> Iterator[CheckMessage]:
    own, named = settings.at(endpoint), partial(lines.setting, endpoint=endpoint)
    resource = own.OAUTH_RESOURCE
    if resource is not None:
        yield from _check_url(named("OAUTH_RESOURCE"), resource, names=True)
        if resource.endswith("/"):
            yield _invalid_setting(f"{named('OAUTH_RESOURCE')}, {resource}, ends with a slash: leave that out.")
    for issuer in own.OAUTH_ISSUERS:
        yield from _check_url(named("OAUTH_ISSUERS"), issuer, names=True)
    for url in own.OAUTH_JWKS_URLS.values():
        yield from _check_url(named("OAUTH_JWKS_URLS"), url)
    if own.OAUTH_INTROSPECTION_URL:
        yield from _check_url(named("OAUTH_INTROSPECTION_URL"), own.OAUTH_INTROSPECTION_URL)
    if refused := sorted(set(settings.OAUTH_ALGORITHMS) - ASYMMETRIC):
        message = f'MCP["OAUTH_ALGORITHMS"] has {", ".join(refused)}; only these algorithms are secure: '
        yield _invalid_setting(message + ", ".join(sorted(ASYMMETRIC)) + ".")
    for scope in own.OAUTH_REQUIRED_SCOPES:
        if not _SCOPE.fullmatch(scope) or scope == "offline_access":
            yield _invalid_setting(
                f"{named('OAUTH_REQUIRED_SCOPES')} has {scope!r}, which is not a scope of a resource."
            )


def _check_url(name: str, url: str, *, names: bool = False) -> Iterator[CheckMessage]:
    """Check a URL. `name` is the setting as it is written.

    `names` means that the URL is also an identifier, which is compared, and must not have a query.
    """
    try:
        parts = urlsplit(url)
        fits = bool(parts.hostname) and parts.username is None and not parts.fragment and _URL.fullmatch(url)
    except ValueError:
        fits = False
    if not fits or parts.scheme not in ("https", "http") or (names and parts.query):
        yield _invalid_setting(f"{name} has {url!r}: write a whole address, such as https://example.com/path.")
    elif parts.scheme == "http" and not django_settings.DEBUG:
        yield _invalid_setting(
            f"{name} has {url!r}: without DEBUG it must be https, because others could read it otherwise."
        )


def _check_user_function(endpoint: str) -> Iterator[CheckMessage]:
    path, named = settings.at(endpoint).OAUTH_USER, lines.setting("OAUTH_USER", endpoint)
    if path is None:
        return
    hint = "Name a plain function by its dotted path:" + lines.indented(
        "def user(claims):  # → a user, or None", "    …"
    )
    try:
        function = import_string(path)
    except Exception as error:
        message = f"{named}, {path}, cannot be imported: {type(error).__name__}: {error}"
        yield Error(message, hint=hint, id="mcp_app.E021")
        return
    if not callable(function) or is_async(function):
        yield Error(f"{named}, {path}, is no plain function.", hint=hint, id="mcp_app.E021")


def _missing_setting(name: str, example: str, why: str) -> CheckMessage:
    hint = lines.in_settings(f"{name} = {example}")
    return Error(f"{name} is not set: {why}.", hint=hint, id="mcp_app.E019")


def _invalid_setting(message: str) -> CheckMessage:
    return Error(message, hint="Change it in the settings' MCP; docs/how-to/access.md has examples.", id="mcp_app.E020")
