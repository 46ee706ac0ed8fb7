"""The `resource` decorator, its checks, and the resources and resource templates of this process.

A URI with variables is a template. Resources are read in `reads`. Source: 2026-07-28
server/resources.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import mcp_types

from mcp_app.auth.principal import EVERYBODY, Access
from mcp_app.catalogue import uri_templates
from mcp_app.catalogue.availability import NO_COMPLETIONS, Available, Completion, check_completions
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
from mcp_app.catalogue.input.forms import Schema
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.schema import signature, text_signature
from mcp_app.catalogue.schema.text_signature import TextSignature
from mcp_app.catalogue.uri_templates import URITemplate
from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.protocol.results import CacheScope

F = TypeVar("F", bound=Callable[..., Any])

Members = Callable[[ReadContext], Iterable[mcp_types.Resource] | Awaitable[Iterable[mcp_types.Resource]]]
"""Returns the resources of a template that a caller is shown in `resources/list`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RegisteredResource:
    """One resource, or one template, as its code declares it."""

    uri: str
    """The declared URI, or URI template with its variables."""
    template: URITemplate | None
    name: str
    description: str
    function: Callable[..., Any]
    signature: TextSignature
    location: str
    title: str | None = None
    mime_type: str | None = None
    """`None`: determined by the return value."""
    size: int | None = None
    """In bytes."""
    annotations: mcp_types.Annotations | None = None
    icons: Sequence[mcp_types.Icon] = ()
    completions: Mapping[str, Completion] = field(default_factory=lambda: NO_COMPLETIONS)
    members: Members | None = None
    """`None`: the template's resources are not listed."""
    available: Available | None = None
    cache_scope: CacheScope | None = None
    """`None`: private if the result may depend on the caller or on the requested language."""
    ttl_ms: int = 0
    meta: Mapping[str, Any] | None = None
    access: Access = EVERYBODY

    @property
    def depends_on_caller(self) -> bool:
        return (
            self.available is not None or self.signature.context_parameter is not None or self.access.depends_on_caller
        )

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables in `uri`, empty for a resource.

        Return `None` if the URI does not match.
        """
        if self.template is None:
            return {} if uri == self.uri else None
        return self.template.match(uri)

    def wire(self) -> dict[str, Any]:
        """Return the MCP Resource or ResourceTemplate object."""
        members: dict[str, Any] = {"uri" if self.template is None else "uriTemplate": self.uri, "name": self.name}
        optional = {"title": self.title, "mimeType": self.mime_type, "size": self.size}
        members |= {name: value for name, value in optional.items() if value is not None}
        members["description"] = self.description
        return members | wire_members(icons=self.icons, annotations=self.annotations, meta=self.meta)


_registry: Registry[RegisteredResource] = Registry("resource", InvalidResource)


def registered_resources() -> Mapping[str, RegisteredResource]:
    """Return the resources and templates of this process, by URI or URI template."""
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
    """Offer a function (plain or `async`) as the resource at `uri`; return the function.

    Example::

        @resource("notes://{day}", mime_type="text/plain")
        def note(day: date):
            "The note of a day."
            return Note.objects.get(day=day).text

    `notes://today` is a resource. `notes://{day}` is a template: its variables are the function's
    parameters, converted as their annotations say. A parameter annotated `ReadContext` receives the
    caller, and may ask its user (`elicit`). The function runs in the server process, for at most
    `READ_TIME_LIMIT` seconds. Use a tool for longer work.

    It returns text, bytes, `Image` or `Audio`, resource contents or a list of them, or any other
    value to send as JSON. It raises `ResourceNotFound` (or Django's `Http404` or
    `PermissionDenied`) if there is no such resource, and `ResourceError` to report another error.

    - `uri` (str): a URI, or a URI template of level 1 (RFC 6570).
    - `name` (str): the name for programs. Default: the function's name.
    - `title` (str): the display name for people.
    - `description` (str): the description for models. Default: the docstring up to a section such
      as `Args:`.
    - `mime_type` (str): default: determined by the return value.
    - `size` (int): in bytes. A template has none.
    - `completions` (dict): a function for each variable that returns its possible values, best
      first. It takes `(value, context)`: the typed text, and the other variables so far, as text by
      name. A third parameter annotated `ReadContext` receives the caller. It may be `async`.
    - `members`: a function that takes a `ReadContext` and returns the template's resources to list,
      as `mcp_types.Resource`, at most 10,000. It may be `async`. `None`: they are not listed.
    - `available`: a function that takes a `ReadContext` and returns whether the caller may use the
      resource. In lists and completions, its `arguments` are empty. It may be `async`.
    - `ttl_ms` (int): how long a client may cache the result, in milliseconds. 0: not at all.
    - `cache_scope` (str): `"public"` if caches may share the result between callers, or
      `"private"`. `None`: public only if anonymous callers are accepted from anywhere, and the
      result cannot depend on the caller or their language.
    - `asks`: forms that the resource may ask its user to fill in, as `ReadContext.elicit` takes
      them. They are checked now.
    - `permissions` (`app_label.codename`) and `groups` (names): the caller's user must have all of
      the permissions, and be in one of the groups. For other callers the resource does not exist.
    - `scopes`: the scopes that the caller's token must have. Without them the resource is listed,
      but reading, completing and subscribing is challenged.
    - `endpoints`: the names in `MCP["ENDPOINTS"]` at which the resource is offered.
    - `annotations` (`mcp_types.Annotations`), `icons` (list of `mcp_types.Icon`), `meta` (dict): as
      the protocol defines them.

    Raises `InvalidResource` if it cannot be offered. Source: 2026-07-28 server/resources.
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
                signature=text_signature.read(function, ReadContext),
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
    parameters = declared.signature.arguments
    if set(variables) != set(parameters):
        have, need = (", ".join(sorted(names)) or "none" for names in (parameters, variables))
        raise UnusableOptionError(f"its parameters must be the variables in its URI ({need}), but are: {have}")
    if declared.template is not None and declared.size is not None:
        raise UnusableOptionError("a template cannot have a size")
    if declared.template is None and declared.members is not None:
        raise UnusableOptionError("only a template can have members")
    for option, number in {"size": declared.size, "ttl_ms": declared.ttl_ms}.items():
        if number is not None and (type(number) is not int or number < 0):
            raise UnusableOptionError(f"{option} must be a whole number of at least 0, not {number!r}")
    if declared.cache_scope not in (None, "public", "private"):
        raise UnusableOptionError('cache_scope must be "public" or "private"')
    if declared.cache_scope == "public" and declared.depends_on_caller:
        raise UnusableOptionError("a result that depends on the caller cannot be public")
    check_completions(declared.completions, variables)
    check_annotations(declared.annotations, mcp_types.Annotations)
    check_icons(declared.icons)
    check_meta(declared.meta)
