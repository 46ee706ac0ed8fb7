"""Who may call: the site's authenticator can be used, and it is not everybody's or nobody's by mistake."""

from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register  # noqa: A004 - Django's name

from mcp_app.auth import anonymous
from mcp_app.checks import functions, lines
from mcp_app.checks.values import readable
from mcp_app.conf import settings

_AUTHENTICATOR = 'MCP["AUTHENTICATOR"] = "mcp_app.auth.tokens.bearer"  # or a function of yours that says who asks'
_FUNCTION = lines.indented("def caller(connection):  # → a user, or None", "    …")


@register(Tags.security)
def check_authenticator(**kwargs: Any) -> list[CheckMessage]:
    """`MCP["AUTHENTICATOR"]` is a plain function; without one, somebody may call all the same."""
    if not readable():
        return []
    path = settings.AUTHENTICATOR
    if path is None:
        return [] if anonymous.is_allowed() else [_nobody()]
    return functions.check("AUTHENTICATOR", path, _FUNCTION, unusable="mcp_app.E016", not_plain="mcp_app.E017")


@register(Tags.security, deploy=True)
def check_anonymous(**kwargs: Any) -> list[CheckMessage]:
    """In deployment nobody calls without saying who they are."""
    if not readable() or not settings.ALLOW_ANONYMOUS:
        return []
    message = "Whoever reaches the endpoint may call every tool without saying who they are."
    hint = lines.in_settings('MCP["ALLOW_ANONYMOUS"] = False', _AUTHENTICATOR)
    return [Warning(message, hint=hint, id="mcp_app.W009")]


def _nobody() -> CheckMessage:
    hint = lines.in_settings(_AUTHENTICATOR)
    if settings.ALLOW_ANONYMOUS is None:
        hint += "\nWhile you develop, DEBUG = True serves calls from your own machine."
    return Warning("Nobody may call: every call is answered by a 401.", hint=hint, id="mcp_app.W008")
