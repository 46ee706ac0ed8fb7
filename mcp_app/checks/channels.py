"""Check `CHANNEL_LAYERS`: that a layer on Redis can be idle. A site on one host needs no layer."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Warning, register  # noqa: A004 - Django's name

from mcp_app.checks import lines

READ_SECONDS: Final = 5
"""How long channels_redis waits in one read, and the default timeout of redis-py 8 and later."""


@register
def check_layers(**kwargs: Any) -> list[CheckMessage]:
    """Check that the socket timeout of each Redis host is longer than a read of the layer."""
    layers = getattr(django_settings, "CHANNEL_LAYERS", None) or {}
    if redis_major() < 8 or not any(map(_is_impatient, layers.values())):
        return []
    message = "An idle channel layer would fail: redis-py times out a read after 5 s, and the layer blocks for as long."
    hint = lines.in_settings(
        "CHANNEL_LAYERS = {",
        '    "default": {',
        '        "BACKEND": "channels_redis.core.RedisChannelLayer",',
        '        "CONFIG": {"hosts": [{"address": "redis://…", "socket_timeout": 15}]},',
        "    }",
        "}",
    )
    return [Warning(message, hint=hint, id="mcp_app.W007")]


def _is_impatient(layer: Mapping[str, Any]) -> bool:
    if layer.get("BACKEND") != "channels_redis.core.RedisChannelLayer":
        return False
    hosts = (layer.get("CONFIG") or {}).get("hosts") or ["redis://localhost:6379"]
    return not all(isinstance(host, Mapping) and _outlasts_a_read(host) for host in hosts)


def _outlasts_a_read(host: Mapping[str, Any]) -> bool:
    seconds = host.get("socket_timeout", READ_SECONDS)
    return seconds is None or seconds > READ_SECONDS


def redis_major() -> int:
    """Return the major version of redis-py, or 0 if it is not installed."""
    try:
        return int(version("redis").partition(".")[0])
    except PackageNotFoundError:
        return 0
