"""Resources and prompts at work: what a caller may have, read or made for them.

Every function here runs authors' code and blocks for as long as that does. What a caller may not have is said to be
unknown. A run that asks its user ends with its questions: who asks them runs it again, with the answers among what is
`Known`. Source: 2026-07-28 server/resources, server/prompts, basic/patterns/mrtr.
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
from mcp_app.auth import anonymous
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import offers, paging, rights
from mcp_app.catalogue.asking import Asked, Known
from mcp_app.catalogue.blocks import check_annotations, check_icons, check_uri
from mcp_app.catalogue.contents import to_contents, to_messages
from mcp_app.catalogue.errors import InvalidArguments, InvalidResult, ResourceNotFound
from mcp_app.catalogue.paging import Page
from mcp_app.catalogue.prompts import RegisteredPrompt, registered_prompts
from mcp_app.catalogue.resources import RegisteredResource, registered_resources
from mcp_app.catalogue.sendable import sendable
from mcp_app.catalogue.visit import Visit
from mcp_app.protocol.errors import clip
from mcp_app.protocol.results import CacheScope

MAX_MEMBERS: Final = 10_000
"""Of one template, in one list."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A resource that somebody asked for, and their `Visit`."""

    resource: RegisteredResource
    visit: Visit


def resources_page(cursor: str | None, principal: Principal) -> Page:
    """A page of the resources by URI. Raises `InvalidCursor`."""
    registered = registered_resources()
    available = _available(registered.values(), principal)
    members = [member for each in available if each.members is not None for member in _members(each, principal)]
    declared = [each for each in available if each.template is None]
    # By URI: what is declared for one goes before what a template says of it, also for who may not have it.
    listed = {each.uri: each for each in [*members, *declared] if each in declared or each.uri not in registered}
    return paging.page(paging.list_at(principal.endpoint, "resources"), listed.values(), lambda each: each.uri, cursor)


def templates_page(cursor: str | None, principal: Principal) -> Page:
    """A page of the resource templates by URI template. Raises `InvalidCursor`."""
    offered = (each for each in registered_resources().values() if each.template is not None)
    return paging.page(
        paging.list_at(principal.endpoint, "resource templates"),
        _available(offered, principal),
        lambda each: each.uri,
        cursor,
    )


def prompts_page(cursor: str | None, principal: Principal) -> Page:
    """A page of the prompts by name. Raises `InvalidCursor`."""
    offered = registered_prompts().values()
    return paging.page(
        paging.list_at(principal.endpoint, "prompts"), _available(offered, principal), lambda each: each.name, cursor
    )


def resources_scope(endpoint: str) -> CacheScope:
    """The scope of every page of resources and of templates: others may be given it where it is everybody's."""
    declared = [each for each in registered_resources().values() if endpoint in each.access.endpoints]
    return _scope(
        endpoint, depends_on_caller=any(_may_be_hidden(each) or each.members is not None for each in declared)
    )


def prompts_scope(endpoint: str) -> CacheScope:
    """The same for prompts."""
    declared = [each for each in registered_prompts().values() if endpoint in each.access.endpoints]
    return _scope(endpoint, depends_on_caller=any(map(_may_be_hidden, declared)))


def find(uri: str, principal: Principal) -> Found | None:
    """The resource that `principal` may read at `uri`; a resource before a template, templates in their order."""
    declared = registered_resources()
    exact = declared.get(uri)
    for each in [exact] if exact is not None else (declared[text] for text in sorted(declared)):
        if (found := _bind(each, uri, principal)) is not None:
            return found
    return None


def permitted(uri: str, principal: Principal) -> Found:
    """The same, for who is to use it. Raises `ResourceNotFound`, `InsufficientScope`."""
    if (found := find(uri, principal)) is None:
        raise ResourceNotFound
    rights.check_scopes(found.resource.access, principal)
    return found


def read(uri: str, principal: Principal, known: Known) -> dict[str, Any] | Asked:
    """A ReadResourceResult object, without `resultType`; or what its user is asked first.

    Raises `ResourceNotFound`, `InsufficientScope`, `ResourceError`, `CannotAsk`, `InvalidResult`, and whatever the
    resource's function raises.
    """
    found = permitted(uri, principal)
    visit = found.visit.to_run(known)
    try:
        return _run(visit, lambda: _contents(found.resource, uri, visit))
    except (Http404, PermissionDenied) as error:
        raise ResourceNotFound from error


def get_prompt(name: str, arguments: Mapping[str, str], principal: Principal, known: Known) -> dict[str, Any] | Asked:
    """A GetPromptResult object, without `resultType`; or what its user is asked first.

    Raises `InvalidArguments`, `InsufficientScope`, `PromptError`, `CannotAsk`, `InvalidResult`, and whatever the
    prompt's function raises.
    """
    prompt = registered_prompts().get(name)
    if prompt is None or not offers.is_offered(prompt, Visit(principal)):
        raise unknown("prompt", name)
    rights.check_scopes(prompt.access, principal)
    visit = Visit(principal, prompt.signature.bind(arguments))
    if not offers.is_available(prompt.available, visit):
        raise unknown("prompt", name)
    visit = visit.to_run(known)
    return _run(visit, lambda: _messages(prompt, visit))


def _run(visit: Visit, function: Callable[[], dict[str, Any]]) -> dict[str, Any] | Asked:
    try:
        return function()
    except BaseException as error:
        if (asked := visit.ended_by(error)) is not None:
            return asked
        raise


def _contents(resource: RegisteredResource, uri: str, visit: Visit) -> dict[str, Any]:
    value = offers.run_for(resource.function, visit, resource.signature.context_parameter, **visit.arguments)
    contents = to_contents(uri, resource.mime_type, value)
    depends_on_caller = resource.depends_on_caller or languages.are_several()
    scope = resource.cache_scope or _scope(visit.principal.endpoint, depends_on_caller=depends_on_caller)
    # A cache does not know the answers, which another read may be given anew.
    ttl_ms = 0 if visit.has_asked else resource.ttl_ms
    return sendable({"contents": contents, "ttlMs": ttl_ms, "cacheScope": scope})


def _messages(prompt: RegisteredPrompt, visit: Visit) -> dict[str, Any]:
    value = offers.run_for(prompt.function, visit, prompt.signature.context_parameter, **visit.arguments)
    return sendable({"description": prompt.description, "messages": to_messages(value)})


def _bind(resource: RegisteredResource, uri: str, principal: Principal) -> Found | None:
    if (texts := resource.match(uri)) is None:
        return None
    try:
        visit = Visit(principal, resource.signature.bind(texts), uri)
    except InvalidArguments:
        return None
    return Found(resource, visit) if offers.is_offered(resource, visit) else None


@dataclass(frozen=True, slots=True)
class _Member:
    """A resource of a template, as its author lists it."""

    resource: mcp_types.Resource

    @property
    def uri(self) -> str:
        return self.resource.uri

    def wire(self) -> dict[str, Any]:
        return self.resource.model_dump(mode="json", by_alias=True, exclude_none=True)


def _members(template: RegisteredResource, principal: Principal) -> list[_Member]:
    assert template.members is not None
    found = list(islice(offers.run(template.members, Visit(principal)), MAX_MEMBERS + 1))
    for each in found:
        if not isinstance(each, mcp_types.Resource) or template.match(each.uri) is None:
            raise InvalidResult(f"{each!r} is no resource of {template.uri}")
        check_uri(each.uri)
        check_annotations(each.annotations)
        check_icons(each.icons)
    if len(found) > MAX_MEMBERS:
        logger.warning("%s lists more than %d resources; the others are left out", template.uri, MAX_MEMBERS)
    return [_Member(each) for each in found[:MAX_MEMBERS]]


def _available(offered: Iterable[Any], principal: Principal) -> list[Any]:
    visit = Visit(principal)
    granted = rights.granted(offered, principal)
    return [each for each in granted if offers.is_available(each.available, visit)]


def _may_be_hidden(offered: RegisteredResource | RegisteredPrompt) -> bool:
    return offered.available is not None or offered.access.is_limited


def _scope(endpoint: str, *, depends_on_caller: bool) -> CacheScope:
    """`public` may be given to anybody at all, so it is said only where anybody may ask."""
    return "public" if anonymous.is_for_everybody(endpoint) and not depends_on_caller else "private"


def unknown(kind: str, name: str) -> InvalidArguments:
    """What is said of a prompt or template that is unknown, and of one that the caller may not have."""
    return InvalidArguments(f"Unknown {kind}: {clip(name)}.")
