"""The `prompt` decorator, its checks, and the prompts of this process.

Prompts run in `reads`. Source: 2026-07-28 server/prompts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, overload

import mcp_types
from pydantic.fields import FieldInfo

from mcp_app.auth.principal import EVERYBODY, Access
from mcp_app.catalogue.availability import NO_COMPLETIONS, Available, Completion, check_completions
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
from mcp_app.catalogue.input.forms import Schema
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.schema import signature, text_signature
from mcp_app.catalogue.schema.text_signature import TextSignature
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
        """Return the MCP Prompt object."""
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
    """Return the prompts of this process, by name."""
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
    """Offer a function (plain or `async`) as a prompt, as `@prompt` or `@prompt(…)`; return it.

    Example::

        @prompt
        def review(code: str):
            "Review a piece of code."
            return f"Please review this code: {code}"

    The parameters are the prompt's arguments. Clients send text, which is converted as the
    annotations say. A parameter annotated `ReadContext` receives the caller, and may ask its user
    (`elicit`). The function runs in the server process, for at most `READ_TIME_LIMIT` seconds.

    It returns text or a content block (a message of the user), `user(…)` or `assistant(…)`, or a
    list of these. It raises `PromptError` if its arguments make no prompt.

    - `name` (str): the name for clients, 1 to 128 of `A-Z a-z 0-9 _ . -`. Default: the function's
      name.
    - `title` (str): the display name for people.
    - `description` (str): default: the docstring up to a section such as `Args:`.
    - `completions` (dict): a function for each argument that returns its possible values, best
      first. It takes `(value, context)`: the typed text, and the other arguments so far, as text by
      name. A third parameter annotated `ReadContext` receives the caller. It may be `async`.
    - `available`: a function that takes a `ReadContext` and returns whether the caller may use the
      prompt. It may be `async`. When a client gets the prompt, it is called twice: with empty
      `arguments`, as in lists and completions, and then with the prompt's arguments.
    - `asks`: forms that the prompt may ask its user to fill in, as `ReadContext.elicit` takes them.
      They are checked now.
    - `permissions` (`app_label.codename`) and `groups` (names): the caller's user must have all of
      the permissions, and be in one of the groups. For other callers the prompt does not exist.
    - `scopes`: the scopes that the caller's token must have. Without them the prompt is listed, but
      getting and completing it is challenged.
    - `endpoints`: the names in `MCP["ENDPOINTS"]` at which the prompt is offered.
    - `icons` (list of `mcp_types.Icon`), `meta` (dict): as the protocol defines them.

    Raises `InvalidPrompt` if it cannot be offered. Source: 2026-07-28 server/prompts.
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
        read = text_signature.read(function, ReadContext)
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
