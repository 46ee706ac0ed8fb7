"""Who may call: the site's authenticator can be used, and it is not everybody's or nobody's by mistake."""

from inspect import iscoroutinefunction
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004 - Django's name
from django.utils.module_loading import import_string

from mcp_app.checks import lines
from mcp_app.checks.values import readable
from mcp_app.conf import settings

_FUNCTION = lines.indented("def caller(connection):  # → a user, or None", "    …")


@register(Tags.security)
def check_authenticator(**kwargs: Any) -> list[CheckMessage]:
    """`MCP["AUTHENTICATOR"]` is a plain function; without one, somebody may call all the same."""
    if not readable():
        return []
    path = settings.AUTHENTICATOR
    if path is None:
        return [] if settings.ALLOW_ANONYMOUS else [_nobody()]
    try:
        authenticator = import_string(path)
    except Exception as error:
        message = f'MCP["AUTHENTICATOR"], {path}, cannot be imported: {type(error).__name__}: {error}'
        return [Error(message, hint=f"Name a plain function by its dotted path:{_FUNCTION}", id="mcp_app.E016")]
    if not callable(authenticator):
        message = f'MCP["AUTHENTICATOR"], {path}, is no function.'
        return [Error(message, hint=f"Name a plain function by its dotted path:{_FUNCTION}", id="mcp_app.E016")]
    if _is_async(authenticator):
        message = f'MCP["AUTHENTICATOR"], {path}, is async; it is called in a thread, where it may wait as it likes.'
        return [Error(message, hint=f"Write it as a plain function:{_FUNCTION}", id="mcp_app.E017")]
    return []


@register(Tags.security, deploy=True)
def check_anonymous(**kwargs: Any) -> list[CheckMessage]:
    """In deployment nobody calls without saying who they are."""
    if not readable() or not settings.ALLOW_ANONYMOUS:
        return []
    message = "Whoever reaches the endpoint may call every tool without saying who they are."
    hint = lines.in_settings('MCP["ALLOW_ANONYMOUS"] = False', 'MCP["AUTHENTICATOR"] = "…"')
    return [Warning(message, hint=hint, id="mcp_app.W009")]


def _nobody() -> CheckMessage:
    hint = lines.in_settings('MCP["AUTHENTICATOR"] = "…"  # your function that says who asks; or, on your own machine:')
    hint += lines.indented('MCP["ALLOW_ANONYMOUS"] = DEBUG')
    return Warning("Nobody may call: every call is answered by a 401.", hint=hint, id="mcp_app.W008")


def _is_async(authenticator: Any) -> bool:
    return iscoroutinefunction(authenticator) or iscoroutinefunction(getattr(authenticator, "__call__", None))  # noqa: B004
