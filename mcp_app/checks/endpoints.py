"""Check `MCP["ENDPOINTS"]`: names, paths and audiences, and the endpoints that tools name."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004 - Django's name

from mcp_app.auth.oauth.resource import canonical_uri, protected_resource
from mcp_app.catalogue.declaration import Guarded
from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.catalogue.registry import registered_tools
from mcp_app.catalogue.resources import registered_resources
from mcp_app.checks.values import is_readable, is_well_typed
from mcp_app.conf import DEFAULT_ENDPOINT, settings

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PATH: Final = re.compile(r"/[^\s?#]*")
_DECLARED: Final[Mapping[str, Callable[[], Mapping[str, Guarded]]]] = {
    "tool": registered_tools,
    "resource": registered_resources,
    "prompt": registered_prompts,
}


@register
def check_endpoints(**kwargs: Any) -> list[CheckMessage]:
    """Check that endpoints have valid names and paths, and do not share a path or an audience."""
    if not is_readable() or not is_well_typed():
        return []
    return [*_check_names(), *_check_paths(), *_check_audiences()]


@register
def check_offered(**kwargs: Any) -> list[CheckMessage]:
    """Check that tools, resources and prompts are offered at existing endpoints."""
    if not is_readable():
        return []
    return [message for kind, declared in _DECLARED.items() for message in _check_offered_at(kind, declared())]


def _check_names() -> Iterator[CheckMessage]:
    for name in settings.endpoints:
        if not _NAME.fullmatch(name):
            message = (
                f"An endpoint is named {name!r}: a name has 1 to 64 of the characters a-z 0-9 _ - and "
                "begins with a letter or digit."
            )
            yield _error(message, 'Rename it in MCP["ENDPOINTS"], and where tools name it.', "mcp_app.E024")


def _check_paths() -> Iterator[CheckMessage]:
    paths = {name: settings.at(name).PATH for name in settings.endpoints}
    for name, path in paths.items():
        if not _PATH.fullmatch(path):
            message = f"The endpoint {name!r} is at {path!r}, which is not a path."
            yield _error(message, 'Write its PATH as in a URL, such as "/mcp/staff".', "mcp_app.E024")
    for names in _names_that_share((path.rstrip("/"), name) for name, path in paths.items()):
        message = f"The endpoints {names} have the same path, {paths[names.split(', ')[0]]}."
        yield _error(message, 'Give each a PATH of its own in MCP["ENDPOINTS"].', "mcp_app.E025")


def _check_audiences() -> Iterator[CheckMessage]:
    resources = {name: protected_resource(name) for name in settings.endpoints}
    named = ((canonical_uri(audience), name) for name, each in resources.items() if each for audience in each.audiences)
    for names in _names_that_share(named):
        message = f"The endpoints {names} have the same audience: a token for one is valid for the other."
        hint = 'Give each an OAUTH_RESOURCE, and OAUTH_AUDIENCES, of its own in MCP["ENDPOINTS"].'
        yield _error(message, hint, "mcp_app.E025")


def _check_offered_at(kind: str, declared: Mapping[str, Guarded]) -> Iterator[CheckMessage]:
    for name, each in declared.items():
        unknown = [endpoint for endpoint in each.access.endpoints if endpoint not in settings.endpoints]
        if unknown == [DEFAULT_ENDPOINT] == list(each.access.endpoints):
            message = (
                f"The {kind} {name!r} is offered nowhere: it names no endpoint, and no endpoint is named 'default'."
            )
            hint = f'Write @{kind}(endpoints=[…]) with names of MCP["ENDPOINTS"]: {", ".join(settings.endpoints)}.'
            yield Warning(message, hint=hint, id="mcp_app.W013")
        elif unknown:
            message = f"The {kind} {name!r} is offered at {', '.join(unknown)}: there is no such endpoint."
            hint = f'Name one of MCP["ENDPOINTS"]: {", ".join(settings.endpoints)}.'
            yield Warning(message, hint=hint, id="mcp_app.W013")


def _names_that_share(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names of the pairs that share a value, as one text for each shared value."""
    by_thing: dict[str, dict[str, None]] = {}
    for thing, name in pairs:
        by_thing.setdefault(thing, {})[name] = None
    return [", ".join(names) for names in by_thing.values() if len(names) > 1]


def _error(message: str, hint: str, check_id: str) -> CheckMessage:
    return Error(message, hint=hint, id=check_id)
