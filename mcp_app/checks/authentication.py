"""Check access: is the authenticator usable, and is access open or closed by mistake?

If an endpoint uses the site's login, pages must be allowed to call, and logging out must end
access.
"""

from collections.abc import Iterator
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Tags, Warning, register  # noqa: A004 - Django's name

from mcp_app.auth import authentication
from mcp_app.checks import functions, lines
from mcp_app.checks.values import is_readable, is_well_typed
from mcp_app.conf import settings

COOKIE: Final = "mcp_app.auth.logins.cookie"
SIGNED_COOKIES: Final = "django.contrib.sessions.backends.signed_cookies"
_AUTHENTICATOR = 'MCP["AUTHENTICATOR"] = "mcp_app.auth.tokens.bearer"  # or your own function'
_FUNCTION = lines.indented("def caller(connection):  # → a user, or None", "    …")


@register(Tags.security)
def check_authenticator(**kwargs: Any) -> list[CheckMessage]:
    """Check that `MCP["AUTHENTICATOR"]` is a plain function, or anonymous calls are allowed."""
    if not is_readable() or not is_well_typed():
        return []
    found: list[CheckMessage] = []
    for endpoint in settings.endpoints:
        # A setting that endpoints share is reported only once.
        found += [message for message in _check_endpoint(endpoint) if message not in found]
    return found


def _check_endpoint(endpoint: str) -> list[CheckMessage]:
    path = settings.at(endpoint).AUTHENTICATOR
    if path is None:
        return [] if authentication.allows_anonymous(endpoint) else [_closed_endpoint(endpoint)]
    named = lines.setting("AUTHENTICATOR", endpoint)
    return functions.check(named, path, _FUNCTION, unusable="mcp_app.E016", not_plain="mcp_app.E017")


@register(Tags.security, deploy=True)
def check_anonymous(**kwargs: Any) -> list[CheckMessage]:
    """Warn if anonymous callers may call every tool (`check --deploy`)."""
    if not is_readable() or not is_well_typed():
        return []
    return [_open_endpoint(endpoint) for endpoint in filter(authentication.is_public, settings.endpoints)]


def _open_endpoint(endpoint: str) -> CheckMessage:
    message = f"Every client that reaches {_name_endpoint(endpoint)} can call every tool without authentication."
    hint = lines.in_settings(f"{lines.setting('ALLOW_ANONYMOUS', endpoint)} = False", _AUTHENTICATOR)
    return Warning(message, hint=hint, id="mcp_app.W009")


def _closed_endpoint(endpoint: str) -> CheckMessage:
    hint = lines.in_settings(_AUTHENTICATOR)
    if settings.at(endpoint).ALLOW_ANONYMOUS is None:
        hint += "\nWhile you develop, DEBUG = True serves calls from your own machine."
    at = f" at {_name_endpoint(endpoint)}" if settings.ENDPOINTS else ""
    return Warning(
        f"No client can call{at}: there is no authenticator and anonymous calls are not allowed, "
        "so every call gets a 401 response.",
        hint=hint,
        id="mcp_app.W008",
    )


def _name_endpoint(endpoint: str) -> str:
    return f"the endpoint {endpoint!r}" if settings.ENDPOINTS else "the endpoint"


@register(Tags.security)
def check_logins(**kwargs: Any) -> list[CheckMessage]:
    """Check endpoints that use the site's login: origins of pages, and the session backend."""
    if not is_readable() or not is_well_typed():
        return []
    used = [endpoint for endpoint in settings.endpoints if settings.at(endpoint).AUTHENTICATOR == COOKIE]
    found: list[CheckMessage] = []
    for endpoint in used:
        # A setting that endpoints share is reported only once.
        found += [message for message in _check_origins(endpoint) if message not in found]
    if used and django_settings.SESSION_ENGINE == SIGNED_COOKIES:
        message = "Logging out does not end access: a session stored in a signed cookie stays valid until it expires."
        hint = lines.in_settings('SESSION_ENGINE = "django.contrib.sessions.backends.db"')
        found.append(Warning(message, hint=hint, id="mcp_app.W015"))
    return found


def _check_origins(endpoint: str) -> Iterator[CheckMessage]:
    if not settings.at(endpoint).ALLOWED_ORIGINS and not django_settings.DEBUG:
        message = "No web page can call: browsers send the origin of the page, and no origin is allowed."
        named = lines.setting("ALLOWED_ORIGINS", endpoint)
        hint = lines.in_settings(f'{named} = ["https://example.com"]  # the site\'s own')
        yield Warning(message, hint=hint, id="mcp_app.W014")
