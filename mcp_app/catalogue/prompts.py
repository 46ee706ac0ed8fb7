"""The prompts of this process: the `prompt` decorator and what it checks.

Refuses to run one: `reading` does. Source: 2026-07-28 server/prompts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, overload

import mcp_types
from pydantic.fields import FieldInfo

from mcp_app.auth.access import EVERYBODY, Access
from mcp_app.catalogue import signature, text_signature
from mcp_app.catalogue.declaration import (
    Registry,
    access_of,
    check_forms,
    check_icons,
    check_meta,
    check_name,
    spoken,
    wire_members,
)
from mcp_app.catalogue.errors import InvalidPrompt
from mcp_app.catalogue.forms import Schema
from mcp_app.catalogue.offers import NO_COMPLETIONS, Available, Completion, check_completions
from mcp_app.catalogue.text_signature import TextSignature
from mcp_app.catalogue.visit import Visit
from mcp_app.conf import DEFAULT_ENDPOINT

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False, kw_only=True)
class RegisteredPrompt:
    """One prompt as its code declares it."""

    name: str
    description: str
    function: Callable[..., Any]
    signature: TextSignature
    location: str
    title: str | None = None
    icons: Sequence[mcp_types.Icon] = ()
    completions: Mapping[str, Completion] = field(default_factory=lambda: NO_COMPLETIONS)
    available: Available | None = None
    meta: Mapping[str, Any] | None = None
    access: Access = EVERYBODY

    def wire(self) -> dict[str, Any]:
        """Its MCP Prompt object."""
        title = {} if self.title is None else {"title": self.title}
        arguments = [_argument(name, info) for name, info in self.signature.arguments.items()]
        return {
            "name": self.name,
            **title,
            "description": self.description,
            **({"arguments": arguments} if arguments else {}),
            **wire_members(icons=self.icons, meta=self.meta),
        }


_registry: Registry[RegisteredPrompt] = Registry("prompt", InvalidPrompt)


def registered_prompts() -> Mapping[str, RegisteredPrompt]:
    """The prompts of this process, by name."""
    return _registry.declared


@overload
def prompt(function: F, /) -> F: ...


@overload
def prompt(
    function: None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[mcp_types.Icon] = (),
    completions: Mapping[str, Completion] = NO_COMPLETIONS,
    available: Available | None = None,
    asks: Sequence[Schema] = (),
    permissions: Sequence[str] = (),
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    endpoints: Sequence[str] = (DEFAULT_ENDPOINT,),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...


def prompt(function: Any = None, /, **options: Any) -> Any:
    """Offer a function (plain or `async`) as a prompt, as `@prompt` or `@prompt(…)`; the function itself is returned.

    Its parameters are the prompt's arguments: text on the wire, turned into what their annotations say. A parameter
    annotated `Visit` is given who asks, and may ask its user (`elicit` and its kin). It returns the messages: text or a
    content block for one of the user's, `user(…)` and `assistant(…)`, or a list of these; it raises `PromptError` where
    its arguments make no prompt. It runs in the server process, for at most READ_TIME_LIMIT.

    `name`: what clients call it by, by default the function's name. `title`: what people see. `description`: by
    default the docstring. `completions`: by argument a function `(value, context)` from what was typed and the others
    so far to texts, best first; a third parameter annotated `Visit` is given who asks. `available`: `(visit)` →
    whether that caller may have it, asked in lists with a `Visit` whose `arguments` are empty. Both may be `async`.
    `asks`: forms that it may have its user fill in, refused now where they could not be shown. `permissions` (all of
    Django's, as `app_label.codename`) and `groups` (one of them): what a caller's user must have; for others there is
    no such prompt. `scopes`: what a caller's token must have been given for; without, it is listed, and who gets or
    completes it is challenged. `endpoints`: where it is offered, of the names in `MCP["ENDPOINTS"]`. `icons`, `meta`:
    as the protocol has them.

    Raises `InvalidPrompt` where it could not be offered.
    """
    if function is None:
        return partial(prompt, **options)
    _register(function, **options)
    return function


def _register(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[mcp_types.Icon] = (),
    completions: Mapping[str, Completion] = NO_COMPLETIONS,
    asks: Sequence[Schema] = (),
    permissions: Sequence[str] = (),
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    endpoints: Sequence[str] = (DEFAULT_ENDPOINT,),
    meta: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    location = _registry.location_of(function)
    name = function.__name__ if name is None else name
    with _registry.explain(name, location):
        check_name(name)
        check_icons(icons)
        check_forms(asks)
        check_meta(meta)
        read = text_signature.read(function, Visit)
        check_completions(completions, read.arguments)
        registered = RegisteredPrompt(
            name=name,
            title=title,
            description=description or signature.description_of(function) or title or spoken(name),
            function=function,
            signature=read,
            location=location,
            icons=tuple(icons),
            completions=completions,
            meta=meta,
            access=access_of(permissions, groups, scopes, endpoints),
            **options,
        )
    _registry.add(name, registered)


def _argument(name: str, info: FieldInfo) -> dict[str, Any]:
    optional = {"title": info.title, "description": info.description}
    spoken_of = {member: value for member, value in optional.items() if value is not None}
    return {"name": name, **spoken_of, "required": info.is_required()}
