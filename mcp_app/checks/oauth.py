"""`MCP["OAUTH_…"]`: what the endpoint needs as a resource server is there, and does not let in just anybody."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

from mcp_app.auth.oauth.algorithms import ASYMMETRIC
from mcp_app.checks import lines
from mcp_app.checks.functions import is_async
from mcp_app.checks.values import readable, well_typed
from mcp_app.conf import settings

JWTS: Final = "mcp_app.auth.oauth.jwts.bearer"
INTROSPECTION: Final = "mcp_app.auth.oauth.introspection.bearer"
TOOLKIT: Final = "mcp_app.auth.oauth.toolkit.bearer"
_URL: Final = re.compile(r"[\x21\x23-\x5B\x5D\x5F\x61-\x7A\x7E]+")
"""The characters of RFC 3986, and none that ends a quoted string."""
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""RFC 6749 §3.3."""


@register(Tags.security)
def check_oauth(**kwargs: Any) -> list[CheckMessage]:
    """A resource server names itself, its issuers, and how their tokens are proved."""
    if not readable() or not well_typed() or not _is_used():
        return []
    return [*_lacking(), *_unusable(), *_user_function()]


def _is_used() -> bool:
    ours = settings.AUTHENTICATOR in (JWTS, INTROSPECTION, TOOLKIT)
    return ours or settings.OAUTH_RESOURCE is not None or bool(settings.OAUTH_ISSUERS)


def _lacking() -> Iterator[CheckMessage]:
    if settings.OAUTH_RESOURCE is None:
        yield _lacks("OAUTH_RESOURCE", '"https://example.com/mcp"', "no token can name this endpoint as its audience")
    if not settings.OAUTH_ISSUERS:
        yield _lacks("OAUTH_ISSUERS", '["https://login.example.com"]', "there is nobody whose tokens are taken")
    if settings.AUTHENTICATOR == JWTS:
        for issuer in settings.OAUTH_ISSUERS:
            if issuer not in settings.OAUTH_JWKS_URLS:
                value = f'{{"{issuer}": "https://…"}}'
                yield _lacks("OAUTH_JWKS_URLS", value, f"nothing proves the tokens of {issuer}")
    if settings.AUTHENTICATOR == INTROSPECTION:
        for name in ("OAUTH_INTROSPECTION_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET"):
            if not getattr(settings, name):
                yield _lacks(name, '"…"', "the issuer cannot be asked about tokens")
        if len(settings.OAUTH_ISSUERS) > 1:
            yield _no_good('MCP["OAUTH_ISSUERS"] names more than one, and introspection asks one.')


def _unusable() -> Iterator[CheckMessage]:
    resource = settings.OAUTH_RESOURCE
    if resource is not None:
        yield from _bad_url("OAUTH_RESOURCE", resource, names=True)
        if resource.endswith("/"):
            yield _no_good(f'MCP["OAUTH_RESOURCE"], {resource}, ends with a slash: leave that out.')
    for issuer in settings.OAUTH_ISSUERS:
        yield from _bad_url("OAUTH_ISSUERS", issuer, names=True)
    for url in settings.OAUTH_JWKS_URLS.values():
        yield from _bad_url("OAUTH_JWKS_URLS", url)
    if settings.OAUTH_INTROSPECTION_URL:
        yield from _bad_url("OAUTH_INTROSPECTION_URL", settings.OAUTH_INTROSPECTION_URL)
    if refused := sorted(set(settings.OAUTH_ALGORITHMS) - ASYMMETRIC):
        message = f'MCP["OAUTH_ALGORITHMS"] has {", ".join(refused)}; only these prove a token: '
        yield _no_good(message + ", ".join(sorted(ASYMMETRIC)) + ".")
    for scope in settings.OAUTH_REQUIRED_SCOPES:
        if not _SCOPE.fullmatch(scope) or scope == "offline_access":
            yield _no_good(f'MCP["OAUTH_REQUIRED_SCOPES"] has {scope!r}, which is no scope of a resource.')


def _bad_url(name: str, url: str, *, names: bool = False) -> Iterator[CheckMessage]:
    """`names`: it is a name to be compared as well, and may have no query."""
    try:
        parts = urlsplit(url)
        fits = bool(parts.hostname) and parts.username is None and not parts.fragment and _URL.fullmatch(url)
    except ValueError:
        fits = False
    if not fits or parts.scheme not in ("https", "http") or (names and parts.query):
        yield _no_good(f'MCP["{name}"] has {url!r}: write a whole address, such as https://example.com/path.')
    elif parts.scheme == "http" and not django_settings.DEBUG:
        yield _no_good(f'MCP["{name}"] has {url!r}: outside DEBUG it must be https, else anybody may listen.')


def _user_function() -> Iterator[CheckMessage]:
    path = settings.OAUTH_USER
    if path is None:
        return
    hint = "Name a plain function by its dotted path:" + lines.indented(
        "def user(claims):  # → a user, or None", "    …"
    )
    try:
        function = import_string(path)
    except Exception as error:
        message = f'MCP["OAUTH_USER"], {path}, cannot be imported: {type(error).__name__}: {error}'
        yield Error(message, hint=hint, id="mcp_app.E021")
        return
    if not callable(function) or is_async(function):
        yield Error(f'MCP["OAUTH_USER"], {path}, is no plain function.', hint=hint, id="mcp_app.E021")


def _lacks(name: str, example: str, why: str) -> CheckMessage:
    hint = lines.in_settings(f'MCP["{name}"] = {example}')
    return Error(f'MCP["{name}"] is not set: {why}.', hint=hint, id="mcp_app.E019")


def _no_good(message: str) -> CheckMessage:
    return Error(message, hint="Change it in the settings' MCP; docs/access.md has examples.", id="mcp_app.E020")
