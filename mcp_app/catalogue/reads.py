"""Lists, reads and prompts for one caller.

1. The functions here run authors' code and block until it returns.
2. A resource or prompt that the caller may not use is reported as unknown.
3. A run that asks its user returns an `InputNeeded`. Its caller sends the questions, and runs the
   function again with the answers in `Known`.
4. Unless a resource declares its cache scope, a result is `public` only if the endpoint accepts
   anonymous callers and the result does not depend on the caller or their language.

Source: 2026-07-28 server/resources, server/prompts, basic/patterns/mrtr.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import mcp_types
from django.core.exceptions import PermissionDenied
from django.http import Http404

from mcp_app import languages
from mcp_app.auth import authentication
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import availability, declaration, paging
from mcp_app.catalogue.content.blocks import check_annotations, check_icons, check_uri, dumped, sendable
from mcp_app.catalogue.content.contents import to_contents, to_messages
from mcp_app.catalogue.errors import InvalidArguments, InvalidResult, ResourceNotFound
from mcp_app.catalogue.input.asking import InputNeeded, Known
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.paging import ListPage
from mcp_app.catalogue.prompts import RegisteredPrompt, registered_prompts
from mcp_app.catalogue.resources import RegisteredResource, registered_resources
from mcp_app.protocol.errors import clip
from mcp_app.protocol.results import CacheScope

MAX_MEMBERS: Final = 10_000
"""Maximum resources of one template in one list."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundResource:
    """A resource that a caller requested, and the `ReadContext` of the request."""

    resource: RegisteredResource
    visit: ReadContext


def resources_page(cursor: str | None, principal: Principal) -> ListPage:
    """Return a page of the resources by URI. Raises `InvalidCursor`."""
    registered = registered_resources()
    available = _available(registered.values(), principal)
    members = [member for each in available if each.members is not None for member in _members(each, principal)]
    declared = [each for each in available if each.template is None]
    # A declared resource hides a template's resource of the same URI, even if the caller may not
    # use it.
    listed = {each.uri: each for each in [*members, *declared] if each in declared or each.uri not in registered}
    return paging.page(paging.list_at(principal.endpoint, "resources"), listed.values(), lambda each: each.uri, cursor)


def templates_page(cursor: str | None, principal: Principal) -> ListPage:
    """Return a page of the resource templates by URI template. Raises `InvalidCursor`."""
    offered = (each for each in registered_resources().values() if each.template is not None)
    return paging.page(
        paging.list_at(principal.endpoint, "resource templates"),
        _available(offered, principal),
        lambda each: each.uri,
        cursor,
    )


def prompts_page(cursor: str | None, principal: Principal) -> ListPage:
    """Return a page of the prompts by name. Raises `InvalidCursor`."""
    offered = registered_prompts().values()
    return paging.page(
        paging.list_at(principal.endpoint, "prompts"), _available(offered, principal), lambda each: each.name, cursor
    )


def resources_scope(endpoint: str) -> CacheScope:
    """Return the cache scope for the lists of resources and templates."""
    declared = [each for each in registered_resources().values() if endpoint in each.access.endpoints]
    return _scope(
        endpoint, depends_on_caller=any(_may_be_hidden(each) or each.members is not None for each in declared)
    )


def prompts_scope(endpoint: str) -> CacheScope:
    """Return the cache scope for the list of prompts."""
    declared = [each for each in registered_prompts().values() if endpoint in each.access.endpoints]
    return _scope(endpoint, depends_on_caller=any(map(_may_be_hidden, declared)))


def find(uri: str, principal: Principal) -> FoundResource | None:
    """Return the resource that `principal` may read at `uri`, or `None`.

    A resource takes precedence over a template. Templates are tried in the order of their text.
    """
    declared = registered_resources()
    exact = declared.get(uri)
    for each in [exact] if exact is not None else (declared[text] for text in sorted(declared)):
        if (found := _bind(each, uri, principal)) is not None:
            return found
    return None


def permitted(uri: str, principal: Principal) -> FoundResource:
    """Return the resource that `principal` may use.

    Raises `ResourceNotFound` and `InsufficientScope`.
    """
    if (found := find(uri, principal)) is None:
        raise ResourceNotFound
    declaration.check_scopes(found.resource.access, principal)
    return found


def read(uri: str, principal: Principal, known: Known) -> dict[str, Any] | InputNeeded:
    """Read a resource. Return a ReadResourceResult object without `resultType`, or its questions.

    Raises `ResourceNotFound`, `InsufficientScope`, `ResourceError`, `CannotAsk`, `InvalidResult`,
    and any exception of the resource's function.
    """
    found = permitted(uri, principal)
    visit = found.visit.to_run(known)
    try:
        return _run(visit, lambda: _contents(found.resource, uri, visit))
    except (Http404, PermissionDenied) as error:
        raise ResourceNotFound from error


def get_prompt(
    name: str, arguments: Mapping[str, str], principal: Principal, known: Known
) -> dict[str, Any] | InputNeeded:
    """Run a prompt. Return a GetPromptResult object without `resultType`, or its questions.

    Raises `InvalidArguments`, `InsufficientScope`, `PromptError`, `CannotAsk`, `InvalidResult`, and
    any exception of the prompt's function.
    """
    prompt = registered_prompts().get(name)
    if prompt is None or not availability.is_offered(prompt, ReadContext(principal)):
        raise unknown("prompt", name)
    declaration.check_scopes(prompt.access, principal)
    visit = ReadContext(principal, prompt.signature.bind(arguments))
    if not availability.is_available(prompt.available, visit):
        raise unknown("prompt", name)
    visit = visit.to_run(known)
    return _run(visit, lambda: _messages(prompt, visit))


def _run(visit: ReadContext, function: Callable[[], dict[str, Any]]) -> dict[str, Any] | InputNeeded:
    try:
        return function()
    except BaseException as error:
        if (asked := visit.ended_by(error)) is not None:
            return asked
        raise


def _contents(resource: RegisteredResource, uri: str, visit: ReadContext) -> dict[str, Any]:
    value = availability.run_for(resource.function, visit, resource.signature.context_parameter, **visit.arguments)
    contents = to_contents(uri, resource.mime_type, value)
    depends_on_caller = resource.depends_on_caller or languages.are_several()
    scope = resource.cache_scope or _scope(visit.principal.endpoint, depends_on_caller=depends_on_caller)
    # Caches do not know the answers, and another read may get different ones.
    ttl_ms = 0 if visit.has_asked else resource.ttl_ms
    return sendable({"contents": contents, "ttlMs": ttl_ms, "cacheScope": scope})


def _messages(prompt: RegisteredPrompt, visit: ReadContext) -> dict[str, Any]:
    value = availability.run_for(prompt.function, visit, prompt.signature.context_parameter, **visit.arguments)
    return sendable({"description": prompt.description, "messages": to_messages(value)})


def _bind(resource: RegisteredResource, uri: str, principal: Principal) -> FoundResource | None:
    if (texts := resource.match(uri)) is None:
        return None
    try:
        visit = ReadContext(principal, resource.signature.bind(texts), uri)
    except InvalidArguments:
        return None
    return FoundResource(resource, visit) if availability.is_offered(resource, visit) else None


@dataclass(frozen=True, slots=True)
class _Member:
    """A resource that a template's `members` function lists."""

    resource: mcp_types.Resource

    @property
    def uri(self) -> str:
        return self.resource.uri

    def wire(self) -> dict[str, Any]:
        return dumped(self.resource)


def _members(template: RegisteredResource, principal: Principal) -> list[_Member]:
    assert template.members is not None
    returned = availability.run(template.members, ReadContext(principal))
    if not isinstance(returned, Iterable):
        raise InvalidResult(f"the resources of {template.uri} must be a list, not a {type(returned).__name__}")
    found = list(islice(returned, MAX_MEMBERS + 1))
    for each in found:
        if not isinstance(each, mcp_types.Resource) or template.match(each.uri) is None:
            raise InvalidResult(f"{each!r} is not a resource of {template.uri}")
        check_uri(each.uri)
        check_annotations(each.annotations)
        check_icons(each.icons)
    if len(found) > MAX_MEMBERS:
        logger.warning("%s lists more than %d resources; the rest is left out", template.uri, MAX_MEMBERS)
    return [_Member(each) for each in found[:MAX_MEMBERS]]


def _available(offered: Iterable[Any], principal: Principal) -> list[Any]:
    visit = ReadContext(principal)
    granted = declaration.granted(offered, principal)
    return [each for each in granted if availability.is_available(each.available, visit)]


def _may_be_hidden(offered: RegisteredResource | RegisteredPrompt) -> bool:
    return offered.available is not None or offered.access.is_limited


def _scope(endpoint: str, *, depends_on_caller: bool) -> CacheScope:
    """Return `public` only if the endpoint accepts anonymous callers, as anyone may be given it."""
    return "public" if authentication.is_public(endpoint) and not depends_on_caller else "private"


def unknown(kind: str, name: str) -> InvalidArguments:
    """Return the error for an unknown prompt or template, or one that the caller may not use."""
    return InvalidArguments(f"Unknown {kind}: {clip(name)}.")
