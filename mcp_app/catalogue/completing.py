"""Completions at work: the values that an argument of a prompt or a variable of a template may have.

Runs authors' code and blocks for as long as that does. An argument without completions has none.
Source: 2026-07-28 server/utilities/completion.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import offers, rights
from mcp_app.catalogue.errors import InvalidArguments, InvalidResult
from mcp_app.catalogue.prompts import RegisteredPrompt, registered_prompts
from mcp_app.catalogue.reading import unknown
from mcp_app.catalogue.resources import RegisteredResource, registered_resources
from mcp_app.catalogue.sendable import sendable
from mcp_app.catalogue.visit import Visit
from mcp_app.protocol.errors import clip

MAX_COMPLETIONS: Final = 100
"""Of the protocol ("Completion Results")."""


def complete_prompt(
    name: str, argument: str, value: str, context: Mapping[str, str], principal: Principal
) -> dict[str, Any]:
    """A CompleteResult object for an argument of a prompt.

    Raises `InvalidArguments`, `InsufficientScope`, `InvalidResult`.
    """
    named = [prompt] if (prompt := registered_prompts().get(name)) is not None else []
    return _complete(named, ("prompt", name), argument, value, context, principal)


def complete_template(
    uri: str, argument: str, value: str, context: Mapping[str, str], principal: Principal
) -> dict[str, Any]:
    """The same for a variable of a template, named by itself or by a URI that it has."""
    declared = registered_resources()
    matching = (declared[text] for text in sorted(declared) if text == uri or declared[text].match(uri) is not None)
    return _complete(matching, ("resource template", uri), argument, value, context, principal)


def _complete(
    matching: Iterable[RegisteredResource | RegisteredPrompt],
    asked: tuple[str, str],
    argument: str,
    value: str,
    context: Mapping[str, str],
    principal: Principal,
) -> dict[str, Any]:
    visit = Visit(principal)
    offered = next((each for each in matching if offers.is_offered(each, visit)), None)
    if offered is None:
        raise unknown(*asked)
    rights.check_scopes(offered.access, principal)
    if argument not in offered.signature.arguments:
        raise InvalidArguments(f"There is no argument {clip(argument)}.")
    completion = offered.completions.get(argument)
    found = () if completion is None else offers.complete(completion, value, context, visit)
    return sendable({"completion": _completion(found)})


def _completion(found: Iterable[str]) -> dict[str, Any]:
    known = len(found) if isinstance(found, list | tuple) else None
    values = list(islice(found, MAX_COMPLETIONS + 1))
    if any(not isinstance(each, str) for each in values):
        raise InvalidResult("a completion is a list of texts")
    more = len(values) > MAX_COMPLETIONS
    total = len(values) if not more else known
    return {
        "values": values[:MAX_COMPLETIONS],
        **({} if total is None else {"total": total}),
        "hasMore": more,
    }
