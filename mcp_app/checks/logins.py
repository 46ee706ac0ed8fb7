"""Where the site's login lets programs in its pages call: that they can, and that who logs out is out."""

from typing import Any, Final

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Tags, Warning, register  # noqa: A004 - Django's name

from mcp_app.checks import lines
from mcp_app.checks.values import readable, well_typed
from mcp_app.conf import settings

COOKIE: Final = "mcp_app.auth.logins.cookie"
SIGNED: Final = "django.contrib.sessions.backends.signed_cookies"


@register(Tags.security)
def check_logins(**kwargs: Any) -> list[CheckMessage]:
    """Pages may name their origin, and sessions are where the site can end them."""
    if not readable() or not well_typed() or settings.AUTHENTICATOR != COOKIE:
        return []
    found: list[CheckMessage] = []
    if not settings.ALLOWED_ORIGINS and not django_settings.DEBUG:
        message = "No page may call: browsers say from which origin they are asked, and none is allowed."
        hint = lines.in_settings('MCP["ALLOWED_ORIGINS"] = ["https://example.com"]  # the site\'s own')
        found.append(Warning(message, hint=hint, id="mcp_app.W014"))
    if django_settings.SESSION_ENGINE == SIGNED:
        message = "Who logs out is not out: a session that is a signed cookie is good until it expires."
        hint = lines.in_settings('SESSION_ENGINE = "django.contrib.sessions.backends.db"')
        found.append(Warning(message, hint=hint, id="mcp_app.W015"))
    return found
