"""Check `MCP`: that names are known, types are right, and values are valid, alone and together."""

import logging
import math
import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from mcp_types import Icon
from pydantic import ValidationError

from mcp_app.auth import authentication
from mcp_app.auth.oauth.claims import MAX_CACHE_SECONDS
from mcp_app.checks import lines
from mcp_app.conf import Defaults, settings
from mcp_app.lifecycle.limits.call_rates import CallRate
from mcp_app.protocol.formats import is_icon_source

MAY_BE_ZERO: Final = frozenset(
    {
        "COOPERATIVE_GRACE",
        "HARD_GRACE",
        "DRAIN_SECONDS",
        "LIST_TTL_MS",
        "SSE_AFTER",
        "TASK_AFTER",
        "OAUTH_INTROSPECTION_CACHE",
    }
)
"""All other numbers must be above 0."""
SECRET: Final = frozenset({"AUDIT_KEY", "OAUTH_CLIENT_SECRET"})
"""Values that messages must not show."""
_QUEUE: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ORIGIN: Final = re.compile(r"https?://[^/\s?#@]+")


def is_readable() -> bool:
    """Return whether the settings can be read. If not, the other checks return nothing."""
    try:
        return settings.DATABASE is not None
    except (ImproperlyConfigured, AttributeError, TypeError):
        return False


def is_well_typed() -> bool:
    """Return whether all values have the right type. The settings must be readable."""
    own = getattr(django_settings, "MCP", {})
    everywhere = [own, *own.get("ENDPOINTS", {}).values()]
    return all(_fits_name(name, value) for values in everywhere for name, value in values.items())


@register
def check_values(**kwargs: Any) -> list[CheckMessage]:
    """Check the names, types and values in `MCP`."""
    own = getattr(django_settings, "MCP", {})
    if not isinstance(own, dict):
        return [Error("MCP is not a dictionary.", hint='Write it as MCP = {"NAME": value, …}.', id="mcp_app.E001")]
    try:
        _ = settings.DATABASE
    except ImproperlyConfigured as error:
        return [Error(str(error), hint="Remove or correct the name in the settings' MCP.", id="mcp_app.E001")]
    everywhere = {"MCP": own, **{f'MCP["ENDPOINTS"]["{name}"]': of for name, of in own.get("ENDPOINTS", {}).items()}}
    wrong: list[CheckMessage] = [
        _wrong_type(f'{place}["{name}"]', name, value)
        for place, values in everywhere.items()
        for name, value in values.items()
        if not _fits_name(name, value)
    ]
    return wrong or [
        _nonsense(message)
        for message in (*_check_each(own), *_check_endpoints(), *_check_tool_rate(), *_check_together())
    ]


def _fits_name(name: str, value: object) -> bool:
    return _fits(value, get_type_hints(Defaults)[name])


def _fits(value: object, hint: Any) -> bool:
    if hint is Any:
        return True
    if get_origin(hint) is UnionType:
        return any(_fits(value, member) for member in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, (list, tuple)) and all(_fits(item, *get_args(hint)) for item in value)
    if get_origin(hint) is dict:
        of_key, of_value = get_args(hint)
        return isinstance(value, dict) and all(
            _fits(key, of_key) and _fits(item, of_value) for key, item in value.items()
        )
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, get_origin(hint) or hint) and (hint is bool or not isinstance(value, bool))


def _wrong_type(place: str, name: str, value: object) -> CheckMessage:
    wanted = _describe_type(get_type_hints(Defaults)[name])
    hint = f"Set {place} to {wanted}, or leave it out: its default is {getattr(Defaults, name)!r}."
    shown = f"a {type(value).__name__}" if name in SECRET else repr(value)
    return Error(f"{place} is {shown}, not {wanted}.", hint=hint, id="mcp_app.E006")


def _describe_type(hint: Any) -> str:
    if get_origin(hint) is UnionType:
        return " or ".join(_describe_type(member) for member in get_args(hint))
    if get_origin(hint) is list:
        return "a list of strings" if get_args(hint) == (str,) else "a list of dictionaries"
    if get_origin(hint) is dict:
        inner = {str: "strings", list[str]: "lists of strings"}.get(get_args(hint)[1], "dictionaries")
        return f"a dictionary from strings to {inner}"
    words = {str: "a string", bool: "True or False", int: "a whole number", float: "a finite number", NoneType: "None"}
    return words.get(hint, str(hint))


def _nonsense(message: str) -> CheckMessage:
    return Error(message, hint="Change it in the settings' MCP; mcp_app/conf.py has the units.", id="mcp_app.E007")


def _check_each(own: dict[str, Any]) -> Iterator[str]:
    for name, value in own.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if value < 0 or (value == 0 and name not in MAY_BE_ZERO):
            yield f'MCP["{name}"] is {value!r}: it must be {"0 or more" if name in MAY_BE_ZERO else "above 0"}.'
    if not _QUEUE.fullmatch(settings.QUEUE):
        yield f'MCP["QUEUE"] is {settings.QUEUE!r}: a queue\'s name has 1 to 128 of the characters A-Z a-z 0-9 _ . -'
    if settings.OAUTH_INTROSPECTION_CACHE > MAX_CACHE_SECONDS:
        yield (
            f'MCP["OAUTH_INTROSPECTION_CACHE"] is {settings.OAUTH_INTROSPECTION_CACHE!r}: a revoked token would stay '
            f"valid for that many seconds; the maximum is {MAX_CACHE_SECONDS:g}."
        )
    if settings.LOG_LEVEL not in logging.getLevelNamesMapping():
        yield f'MCP["LOG_LEVEL"] is {settings.LOG_LEVEL!r}: name a level of Python\'s logging, such as INFO or WARNING.'


def _check_endpoints() -> Iterator[str]:
    for endpoint in settings.endpoints:
        allowed = settings.at(endpoint).ALLOW_ANONYMOUS
        if allowed not in (True, False, None, authentication.LOCAL):
            named = lines.setting("ALLOW_ANONYMOUS", endpoint)
            yield f'{named} is {allowed!r}: it must be True, False, "{authentication.LOCAL}" or None.'
    for named, icon in _icons():
        if not _is_icon(icon):
            yield f'{named} has {icon!r}: an icon is {{"src": …}}, with an https:// or data: address (MCP, Icon).'
    for named, origin in _origins():
        if not _ORIGIN.fullmatch(origin):
            yield f"{named} has {origin!r}: write it as browsers send it, such as https://example.com."


def _origins() -> dict[tuple[str, str], None]:
    """Return pairs of a setting, as it is written, and an allowed origin, without duplicates."""
    named = {endpoint: lines.setting("ALLOWED_ORIGINS", endpoint) for endpoint in settings.endpoints}
    return {(named[each], origin): None for each in named for origin in settings.at(each).ALLOWED_ORIGINS}


def _icons() -> Iterator[tuple[str, dict[str, Any]]]:
    for endpoint in settings.endpoints:
        for icon in settings.at(endpoint).SERVER_ICONS:
            yield lines.setting("SERVER_ICONS", endpoint), icon


def _is_icon(value: dict[str, Any]) -> bool:
    try:
        return is_icon_source(Icon.model_validate(value).src)
    except ValidationError:
        return False


def _check_tool_rate() -> Iterator[str]:
    if settings.TOOL_RATE is not None:
        try:
            CallRate.read(settings.TOOL_RATE)
        except ValueError as error:
            yield f'MCP["TOOL_RATE"] cannot be used: {error}.'


def _check_together() -> Iterator[str]:
    if settings.HARD_GRACE < settings.COOPERATIVE_GRACE:
        yield (
            f'MCP["HARD_GRACE"] ({settings.HARD_GRACE:g} s) is less than MCP["COOPERATIVE_GRACE"] '
            f"({settings.COOPERATIVE_GRACE:g} s): a tool would be killed before it is interrupted."
        )
    if settings.LOST_AFTER <= 2 * settings.HEARTBEAT_INTERVAL:
        yield (
            f'MCP["LOST_AFTER"] ({settings.LOST_AFTER:g} s) is not more than twice MCP["HEARTBEAT_INTERVAL"] '
            f"({settings.HEARTBEAT_INTERVAL:g} s): running calls would be declared lost."
        )
    if settings.MAX_HELD_BODY_BYTES < settings.MAX_BODY_BYTES:
        yield (
            f'MCP["MAX_HELD_BODY_BYTES"] ({settings.MAX_HELD_BODY_BYTES}) is less than MCP["MAX_BODY_BYTES"] '
            f"({settings.MAX_BODY_BYTES}): a body of the maximum size would always be refused."
        )
    requests, audit = settings.REQUEST_RETENTION_DAYS, settings.AUDIT_RETENTION_DAYS
    if audit is not None and (requests is None or audit < requests):
        yield (
            f'MCP["AUDIT_RETENTION_DAYS"] ({audit}) is less than MCP["REQUEST_RETENTION_DAYS"] '
            f"({'None: for ever' if requests is None else requests}): the audit must be kept at least "
            "as long as the requests."
        )
