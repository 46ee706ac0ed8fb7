"""Completions: the possible values of a prompt's argument or a template's variable.

The functions here run authors' code and block until it returns. An argument without a completion
function has no values. Source: 2026-07-28 server/utilities/completion.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import availability, declaration
from mcp_app.catalogue.content.blocks import sendable
from mcp_app.catalogue.errors import InvalidArguments, InvalidResult
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.prompts import RegisteredPrompt, registered_prompts
from mcp_app.catalogue.reads import unknown
from mcp_app.catalogue.resources import RegisteredResource, registered_resources
from mcp_app.protocol.errors import clip

MAX_COMPLETIONS: Final = 100
"""The protocol's maximum ("Completion Results")."""


def complete_prompt(
    name: str, argument: str, value: str, context: Mapping[str, str], principal: Principal
) -> dict[str, Any]:
    """Return a CompleteResult object for an argument of a prompt.

    Raises `InvalidArguments`, `InsufficientScope` and `InvalidResult`.
    """
    named = [prompt] if (prompt := registered_prompts().get(name)) is not None else []
    return _complete(named, ("prompt", name), argument, value, context, principal)


def complete_template(
    uri: str, argument: str, value: str, context: Mapping[str, str], principal: Principal
) -> dict[str, Any]:
    """Return a CompleteResult object for a variable of a template.

    `uri` is the template, or a URI that matches it. Raises as `complete_prompt`.
    """
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
    visit = ReadContext(principal)
    offered = next((each for each in matching if availability.is_offered(each, visit)), None)
    if offered is None:
        raise unknown(*asked)
    declaration.check_scopes(offered.access, principal)
    if argument not in offered.signature.arguments:
        raise InvalidArguments(f"There is no argument {clip(argument)}.")
    completion = offered.completions.get(argument)
    found = () if completion is None else availability.complete(completion, value, context, visit)
    return sendable({"completion": _completion(found)})


def _completion(found: object) -> dict[str, Any]:
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise InvalidResult(f"a completion must be a list of strings, not a {type(found).__name__}")
    known = len(found) if isinstance(found, list | tuple) else None
    values = list(islice(found, MAX_COMPLETIONS + 1))
    if any(not isinstance(each, str) for each in values):
        raise InvalidResult("a completion must be a list of strings")
    more = len(values) > MAX_COMPLETIONS
    total = len(values) if not more else known
    return {
        "values": values[:MAX_COMPLETIONS],
        **({} if total is None else {"total": total}),
        "hasMore": more,
    }
