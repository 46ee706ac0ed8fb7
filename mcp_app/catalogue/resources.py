"""The resources and resource templates of this process: the `resource` decorator and what it checks.

A URI with variables is a template. Refuses to read: `reading` does.
Source: 2026-07-28 server/resources.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import mcp_types

from mcp_app.auth.access import EVERYBODY, Access
from mcp_app.catalogue import signature, text_signature, uri_templates
from mcp_app.catalogue.declaration import (
    Registry,
    UnusableOptionError,
    access_of,
    check_annotations,
    check_forms,
    check_icons,
    check_meta,
    spoken,
    wire_members,
)
from mcp_app.catalogue.errors import InvalidResource
from mcp_app.catalogue.forms import Schema
from mcp_app.catalogue.offers import NO_COMPLETIONS, Available, Completion, check_completions
from mcp_app.catalogue.text_signature import TextSignature
from mcp_app.catalogue.uri_templates import URITemplate
from mcp_app.catalogue.visit import Visit
from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.protocol.results import CacheScope

F = TypeVar("F", bound=Callable[..., Any])

Members = Callable[[Visit], Iterable[mcp_types.Resource] | Awaitable[Iterable[mcp_types.Resource]]]
"""The resources of a template that this caller is shown in `resources/list`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RegisteredResource:
    """One resource, or one template of many, as its code declares it."""

    uri: str
    """As declared: with its variables where it is a template."""
    template: URITemplate | None
    name: str
    description: str
    function: Callable[..., Any]
    signature: TextSignature
    location: str
    title: str | None = None
    mime_type: str | None = None
    """None: what the function returns decides."""
    size: int | None = None
    """Bytes."""
    annotations: mcp_types.Annotations | None = None
    icons: Sequence[mcp_types.Icon] = ()
    completions: Mapping[str, Completion] = field(default_factory=lambda: NO_COMPLETIONS)
    members: Members | None = None
    """None: a template's resources are not listed."""
    available: Available | None = None
    cache_scope: CacheScope | None = None
    """None: private where the caller could matter, or the language that it asks for."""
    ttl_ms: int = 0
    meta: Mapping[str, Any] | None = None
    access: Access = EVERYBODY

    @property
    def depends_on_caller(self) -> bool:
        return (
            self.available is not None or self.signature.context_parameter is not None or self.access.depends_on_caller
        )

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables in `uri`, none for a resource; None where it is not this resource's."""
        if self.template is None:
            return {} if uri == self.uri else None
        return self.template.match(uri)

    def wire(self) -> dict[str, Any]:
        """Its MCP Resource or ResourceTemplate object."""
        members: dict[str, Any] = {"uri" if self.template is None else "uriTemplate": self.uri, "name": self.name}
        optional = {"title": self.title, "mimeType": self.mime_type, "size": self.size}
        members |= {name: value for name, value in optional.items() if value is not None}
        members["description"] = self.description
        return members | wire_members(icons=self.icons, annotations=self.annotations, meta=self.meta)


_registry: Registry[RegisteredResource] = Registry("resource", InvalidResource)


def registered_resources() -> Mapping[str, RegisteredResource]:
    """The resources and templates of this process, by URI or URI template."""
    return _registry.declared


def resource(
    uri: str,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: mcp_types.Annotations | None = None,
    icons: Sequence[mcp_types.Icon] = (),
    completions: Mapping[str, Completion] = NO_COMPLETIONS,
    members: Members | None = None,
    available: Available | None = None,
    cache_scope: CacheScope | None = None,
    ttl_ms: int = 0,
    asks: Sequence[Schema] = (),
    permissions: Sequence[str] = (),
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    endpoints: Sequence[str] = (DEFAULT_ENDPOINT,),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Offer a function (plain or `async`) as the resource at `uri`; the function itself is returned.

    `notes://today` is a resource; `notes://{day}` a template, whose variables are the function's parameters and become
    what their annotations say. A parameter annotated `Visit` is given who asks, and may ask its user (`elicit` and its
    kin). The function returns text, bytes, `Image` or `Audio`, resource contents or a list of them, or anything else to
    be sent as JSON; it raises `ResourceNotFound` (or Django's `Http404`, `PermissionDenied`) where there is none,
    `ResourceError` to say what went wrong. It runs in the server process, for at most READ_TIME_LIMIT: what takes
    longer is a tool's work.

    `name`: by default the function's. `title`: what people see. `description`: by default the docstring. `mime_type`:
    by default what the function returns decides. `size`: bytes. `completions`: by variable a function `(value,
    context)` from what was typed and the others so far to texts, best first; a third parameter annotated `Visit` is
    given who asks. `members`: `(visit)` → those of a template's resources that are listed, as `mcp_types.Resource`.
    `available`: `(visit)` → whether that caller may have it, asked in lists with a `Visit` whose `arguments` are
    empty. All three may be `async`. `ttl_ms`: how long a client may keep what it read, in milliseconds. `cache_scope`:
    "public" where caches may give it to others, or "private"; None: private where it may depend on the caller or on
    their language. `asks`: forms that it may have its user fill in, refused now where they could not be shown.
    `permissions` (all of Django's, as `app_label.codename`) and `groups` (one of them): what a caller's user must
    have; for others there is no such resource. `scopes`: what a caller's token must have been given for; without, it
    is listed, and who reads, completes or watches it is challenged. `endpoints`: where it is offered, of the names in
    `MCP["ENDPOINTS"]`. `annotations`, `icons`, `meta`: as the protocol has them.

    Raises `InvalidResource` where it could not be offered.
    """

    def register(function: F) -> F:
        location = _registry.location_of(function)
        with _registry.explain(uri, location):
            registered = RegisteredResource(
                uri=uri,
                template=uri_templates.parse(uri),
                name=function.__name__ if name is None else name,
                title=title,
                description=description or signature.description_of(function) or title or spoken(function.__name__),
                function=function,
                signature=text_signature.read(function, Visit),
                location=location,
                mime_type=mime_type,
                size=size,
                annotations=annotations,
                icons=tuple(icons),
                completions=completions,
                members=members,
                available=available,
                cache_scope=cache_scope,
                ttl_ms=ttl_ms,
                meta=meta,
                access=access_of(permissions, groups, scopes, endpoints),
            )
            _check(registered)
            check_forms(asks)
        _registry.add(uri, registered)
        return function

    return register


def _check(declared: RegisteredResource) -> None:
    variables = () if declared.template is None else declared.template.variables
    if set(variables) != set(declared.signature.arguments):
        raise UnusableOptionError("its parameters are the variables of its URI, by name")
    if declared.template is not None and declared.size is not None:
        raise UnusableOptionError("a template has no size")
    if declared.template is None and declared.members is not None:
        raise UnusableOptionError("only a template has members")
    numbers = [number for number in (declared.size, declared.ttl_ms) if number is not None]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise UnusableOptionError("size is a number of bytes and ttl_ms one of milliseconds, 0 or more")
    if declared.cache_scope not in (None, "public", "private"):
        raise UnusableOptionError('cache_scope is "public" or "private"')
    if declared.cache_scope == "public" and declared.depends_on_caller:
        raise UnusableOptionError("what depends on its caller is not public")
    check_completions(declared.completions, variables)
    check_annotations(declared.annotations, mcp_types.Annotations)
    check_icons(declared.icons)
    check_meta(declared.meta)
