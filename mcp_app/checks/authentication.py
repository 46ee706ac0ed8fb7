"""Who may call: the site's authenticator can be used, and it is not everybody's or nobody's by mistake."""

from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register  # noqa: A004 - Django's name

from mcp_app.auth import anonymous
from mcp_app.checks import functions, lines
from mcp_app.checks.values import readable, well_typed
from mcp_app.conf import settings

_AUTHENTICATOR = 'MCP["AUTHENTICATOR"] = "mcp_app.auth.tokens.bearer"  # or a function of yours that says who asks'
_FUNCTION = lines.indented("def caller(connection):  # → a user, or None", "    …")


@register(Tags.security)
def check_authenticator(**kwargs: Any) -> list[CheckMessage]:
    """`MCP["AUTHENTICATOR"]` is a plain function; without one, somebody may call all the same."""
    if not readable() or not well_typed():
        return []
    found: list[CheckMessage] = []
    for endpoint in settings.endpoints:
        # What endpoints share is said once.
        found += [message for message in _of_endpoint(endpoint) if message not in found]
    return found


def _of_endpoint(endpoint: str) -> list[CheckMessage]:
    path = settings.at(endpoint).AUTHENTICATOR
    if path is None:
        return [] if anonymous.is_allowed(endpoint) else [_nobody(endpoint)]
    named = lines.setting("AUTHENTICATOR", endpoint)
    return functions.check(named, path, _FUNCTION, unusable="mcp_app.E016", not_plain="mcp_app.E017")


@register(Tags.security, deploy=True)
def check_anonymous(**kwargs: Any) -> list[CheckMessage]:
    """In deployment nobody calls without saying who they are."""
    if not readable() or not well_typed():
        return []
    return [_everybodys(endpoint) for endpoint in filter(anonymous.is_for_everybody, settings.endpoints)]


def _everybodys(endpoint: str) -> CheckMessage:
    message = f"Whoever reaches {_the(endpoint)} may call every tool without saying who they are."
    hint = lines.in_settings(f"{lines.setting('ALLOW_ANONYMOUS', endpoint)} = False", _AUTHENTICATOR)
    return Warning(message, hint=hint, id="mcp_app.W009")


def _nobody(endpoint: str) -> CheckMessage:
    hint = lines.in_settings(_AUTHENTICATOR)
    if settings.at(endpoint).ALLOW_ANONYMOUS is None:
        hint += "\nWhile you develop, DEBUG = True serves calls from your own machine."
    at = f" at {_the(endpoint)}" if settings.ENDPOINTS else ""
    return Warning(f"Nobody may call{at}: every call is answered by a 401.", hint=hint, id="mcp_app.W008")


def _the(endpoint: str) -> str:
    return f"the endpoint {endpoint!r}" if settings.ENDPOINTS else "the endpoint"
