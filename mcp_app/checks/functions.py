"""Check the functions that settings name: each can be imported, and is a plain function."""

from inspect import iscoroutinefunction
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

from mcp_app.checks import lines
from mcp_app.checks.values import is_readable, is_well_typed
from mcp_app.conf import settings

_FACTORY = lines.indented(
    "def factory(get_result):", "    def middleware(ctx):", "        return get_result(ctx)", "    return middleware"
)
_REDACTION = lines.indented("def redact(kind, tool, value):  # → what is kept of the value", "    …")


def check(setting: str, path: str, example: str, *, unusable: str, not_plain: str) -> list[CheckMessage]:
    """Check the function at `path`, which a setting names.

    `setting` is the setting as it is written, and `example` the code of a valid function.
    `unusable` and `not_plain` are the ids of the two errors.
    """
    named = f"{setting}, {path},"
    try:
        function = import_string(path)
    except Exception as error:
        message = f"{named} cannot be imported: {type(error).__name__}: {error}"
        return [Error(message, hint=f"Name a plain function by its dotted path:{example}", id=unusable)]
    if not callable(function):
        message = f"{named} is not a function."
        return [Error(message, hint=f"Name a plain function by its dotted path:{example}", id=unusable)]
    if is_async(function):
        message = f"{named} is async, but it is called in a thread, where it may block."
        return [Error(message, hint=f"Write it as a plain function:{example}", id=not_plain)]
    return []


def is_async(function: Any) -> bool:
    """Return whether calling `function` creates a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - the check needs the method itself
    return iscoroutinefunction(function) or iscoroutinefunction(call)


@register
def check_middleware(**kwargs: Any) -> list[CheckMessage]:
    """Check that `MCP["MIDDLEWARE"]` names plain functions."""
    if not is_readable() or not is_well_typed():
        return []
    checked = (
        check("MIDDLEWARE", path, _FACTORY, unusable="mcp_app.E030", not_plain="mcp_app.E031")
        for path in settings.MIDDLEWARE
    )
    return [message for messages in checked for message in messages]


@register(Tags.security)
def check_redaction(**kwargs: Any) -> list[CheckMessage]:
    """Check that `MCP["REDACT"]` is a plain function."""
    if not is_readable() or settings.REDACT is None:
        return []
    return check('MCP["REDACT"]', settings.REDACT, _REDACTION, unusable="mcp_app.E022", not_plain="mcp_app.E023")
