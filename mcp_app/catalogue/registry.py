"""The tools of this process: the `tool` decorator, what it checks, and where it keeps them.

An app's tools live in its `mcp_tools.py`, found like `admin.py`. Everything that can be wrong with a tool is an
`InvalidTool` while that module is imported. Refuses to read a row: what administrators say is joined in `catalogue`.
"""

import inspect
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

import mcp_types
from django.utils.module_loading import autodiscover_modules
from pydantic import ValidationError

from mcp_app.catalogue import signature
from mcp_app.catalogue.errors import InvalidForm, InvalidTool
from mcp_app.catalogue.forms import Schema, requested_schema
from mcp_app.catalogue.json_schema import Path, UnusableSchemaError, header_params
from mcp_app.catalogue.signature import Signature, UnusableSignatureError
from mcp_app.states import CancelPolicy

MODULE: Final = "mcp_tools"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ICON_SCHEMES: Final = ("https://", "data:")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class RegisteredTool:
    """One tool as its code declares it. None in a grace (seconds), limit (seconds) or queue is the site's default."""

    name: str
    title: str | None
    description: str
    function: Callable[..., Any]
    signature: Signature
    location: str
    """Module and qualified name of the function."""
    header_params: Mapping[str, Path]
    """The `x-mcp-header` names, each with the chain of `properties` keys to its parameter."""
    cancel_policy: CancelPolicy = CancelPolicy.KILL
    cooperative_grace: float | None = None
    hard_grace: float | None = None
    time_limit: float | None = None
    queue: str | None = None
    annotations: mcp_types.ToolAnnotations | None = None
    icons: tuple[mcp_types.Icon, ...] = ()
    requires: Mapping[str, Any] | None = None
    """The client capabilities it cannot do without: a ClientCapabilities object."""
    meta: Mapping[str, Any] | None = None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def wire_members(self) -> dict[str, Any]:
        """The members of its MCP Tool object that no administrator can change, JSON-ready; never change them."""
        members: dict[str, Any] = {"inputSchema": self.signature.input_schema}
        if self.signature.output_schema is not None:
            members["outputSchema"] = self.signature.output_schema
        if self.annotations is not None:
            members["annotations"] = self.annotations.model_dump(by_alias=True, exclude_none=True)
        if self.icons:
            members["icons"] = [icon.model_dump(by_alias=True, exclude_none=True) for icon in self.icons]
        if self.meta is not None:
            members["_meta"] = dict(self.meta)
        return members


_tools: dict[str, RegisteredTool] = {}


def registered_tools() -> Mapping[str, RegisteredTool]:
    """The tools of this process, by name."""
    return MappingProxyType(_tools)


def autodiscover() -> None:
    """Import `mcp_tools` of every installed app; a second call finds nothing new."""
    autodiscover_modules(MODULE)


@contextmanager
def isolated_registry() -> Iterator[None]:
    """For tests: an empty registry inside the block, the former one after it. Not for concurrent use."""
    global _tools
    former, _tools = _tools, {}
    try:
        yield
    finally:
        _tools = former


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    cancel: CancelPolicy = CancelPolicy.KILL,
    cooperative_grace: float | None = None,
    hard_grace: float | None = None,
    time_limit: float | None = None,
    queue: str | None = None,
    annotations: mcp_types.ToolAnnotations | None = None,
    icons: Sequence[mcp_types.Icon] | None = None,
    input_schema: dict[str, Any] | None = None,
    requires: Mapping[str, Any] | None = None,
    asks: Sequence[Schema] = (),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...


def tool(function: Any = None, /, **options: Any) -> Any:
    """Offer a function (plain or `async`) as a tool, as `@tool` or `@tool(…)`; the function itself is returned.

    `name`: what clients call it by, by default the function's name. `title`: what people see. `description`: what the
    model reads, by default the docstring. `cancel`: how far a cancellation may go. `cooperative_grace`, `hard_grace`,
    `time_limit`: seconds, None for the site's default. `queue`: the Celery queue. `annotations`, `icons`, `meta`: as
    the protocol has them. `requires`: client capabilities that it needs, such as `{"elicitation": {}}`. `asks`: forms
    that it may have its user fill in, refused now where they could not be shown. `input_schema`: a JSON Schema to show
    and check instead of the signature's; the function then takes one parameter besides its context, the validated
    arguments as a dictionary.

    Raises `InvalidTool` where the tool could not be offered.
    """
    if function is None:
        return partial(tool, **options)
    _register(function, **options)
    return function


def _register(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    cancel: CancelPolicy = CancelPolicy.KILL,
    icons: Sequence[mcp_types.Icon] | None = None,
    input_schema: dict[str, Any] | None = None,
    requires: Mapping[str, Any] | None = None,
    asks: Sequence[Schema] = (),
    **options: Any,
) -> None:
    location = _location(function)
    name = function.__name__ if name is None else name
    try:
        _check_name(name, location)
        _check_options(icons=icons or (), requires=requires, **options)
        for schema in asks:
            requested_schema(schema)
        read = signature.read(function, input_schema)
        registered = RegisteredTool(
            name=name,
            title=title,
            description=description or signature.description_of(function) or title or _spoken(name),
            function=function,
            signature=read,
            location=location,
            header_params=header_params(read.input_schema),
            cancel_policy=CancelPolicy(cancel),
            icons=tuple(icons or ()),
            requires=requires,
            **options,
        )
    except (InvalidForm, UnusableSchemaError, UnusableSignatureError, ValidationError, ValueError) as error:
        raise InvalidTool(f"The tool {name!r} ({location}) cannot be offered: {str(error).rstrip('.')}.") from error
    _tools[name] = registered


def _location(function: object) -> str:
    if not inspect.isfunction(function):
        raise InvalidTool(f"Only functions can be tools, not {function!r}.")
    location = f"{function.__module__}.{function.__qualname__}"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTool(f"{location} is a generator; a tool returns its result.")
    return location


def _spoken(name: str) -> str:
    return re.sub(r"[_.-]+", " ", name).strip().capitalize() or name


def _check_name(name: str, location: str) -> None:
    if not _NAME.fullmatch(name):
        raise UnusableSignatureError("a name has 1 to 128 of the characters A-Z a-z 0-9 _ . -")
    if (other := _tools.get(name)) is not None:
        raise InvalidTool(
            f"Two tools are named {name!r}: {other.location} and {location}; give one of them another name."
        )


def _check_options(
    *,
    icons: Sequence[mcp_types.Icon],
    requires: Mapping[str, Any] | None,
    cooperative_grace: float | None = None,
    hard_grace: float | None = None,
    time_limit: float | None = None,
    queue: str | None = None,
    annotations: mcp_types.ToolAnnotations | None = None,
    meta: Mapping[str, Any] | None = None,
) -> None:
    for option, seconds in (("cooperative_grace", cooperative_grace), ("hard_grace", hard_grace)):
        if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
            raise UnusableSignatureError(f"{option} is a number of seconds, 0 or more")
    if time_limit is not None and not (math.isfinite(time_limit) and time_limit > 0):
        raise UnusableSignatureError("time_limit is a number of seconds above 0")
    if queue is not None and not _NAME.fullmatch(queue):
        raise UnusableSignatureError("a queue's name has 1 to 128 of the characters A-Z a-z 0-9 _ . -")
    if any(not icon.src.lower().startswith(_ICON_SCHEMES) for icon in icons):
        raise UnusableSignatureError("an icon's src begins with https:// or data:")
    if annotations is not None and not isinstance(annotations, mcp_types.ToolAnnotations):
        raise UnusableSignatureError("annotations is a mcp_types.ToolAnnotations")
    if requires is not None:
        mcp_types.ClientCapabilities.model_validate(requires)
    try:
        json.dumps(dict(meta or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnusableSignatureError("meta must be plain, finite JSON") from error
