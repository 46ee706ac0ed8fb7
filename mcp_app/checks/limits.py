"""Check the cache that counts calls, if tools have rates."""

from contextlib import suppress
from typing import Any

from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.db import DatabaseCache
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.filebased import FileBasedCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.checks import CheckMessage, Warning, register  # noqa: A004 - Django's name

from mcp_app.catalogue.registry import registered_tools
from mcp_app.checks import lines, values
from mcp_app.conf import settings
from mcp_app.lifecycle.limits.call_rates import CallRate

_SHARED = lines.in_settings(
    'CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://…"}}'
)


@register
def check_cache(**kwargs: Any) -> list[CheckMessage]:
    """Check that all server processes share the cache, and that it increments atomically."""
    if not values.is_readable() or not (rated := _find_rated_tool()):
        return []
    cache = caches[DEFAULT_CACHE_ALIAS]
    if isinstance(cache, DummyCache):
        message = f"Calls of {rated} are refused: they have a rate limit, and the cache cannot count."
        return [Warning(message, hint=_SHARED, id="mcp_app.W020")]
    if isinstance(cache, LocMemCache):
        message = (
            f"Calls of {rated} are counted for their rate in each server process separately, because "
            "the cache is in its memory."
        )
        return [
            Warning(
                message,
                hint=f"This is correct if there is only one server process. Otherwise:\n{_SHARED}",
                id="mcp_app.W020",
            )
        ]
    if isinstance(cache, DatabaseCache | FileBasedCache):
        message = (
            f"Calls of {rated} that arrive together may be counted as one, because the cache does not "
            "increment atomically."
        )
        return [Warning(message, hint=_SHARED, id="mcp_app.W020")]
    return []


def _find_rated_tool() -> str:
    """Return the name of a tool that has a rate, or an empty string."""
    with suppress(ValueError):  # reported by `check_values`
        if settings.TOOL_RATE is not None and CallRate.read(settings.TOOL_RATE):
            return "every tool"
    return next((tool.name for tool in registered_tools().values() if tool.rate is not None), "")
