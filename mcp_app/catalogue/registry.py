"""The tools of this process: the `tool` decorator and what it checks.

Refuses to read a row: what administrators say is joined in `catalogue`.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar, overload

import mcp_types

from mcp_app.auth.access import EVERYBODY, Access
from mcp_app.catalogue import signature
from mcp_app.catalogue.declaration import (
    Registry,
    UnusableOptionError,
    access_of,
    check_annotations,
    check_forms,
    check_icons,
    check_meta,
    check_name,
    is_name,
    spoken,
    wire_members,
)
from mcp_app.catalogue.errors import InvalidTool
from mcp_app.catalogue.forms import Schema
from mcp_app.catalogue.json_schema import Path, header_params
from mcp_app.catalogue.signature import Signature
from mcp_app.states import CancelPolicy, TaskMode

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
    task: TaskMode = TaskMode.NEVER
    task_after: float | None = None
    annotations: mcp_types.ToolAnnotations | None = None
    icons: tuple[mcp_types.Icon, ...] = ()
    requires: Mapping[str, Any] | None = None
    """The client capabilities it cannot do without: a ClientCapabilities object."""
    meta: Mapping[str, Any] | None = None
    access: Access = EVERYBODY

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def wire_members(self) -> dict[str, Any]:
        """The members of its MCP Tool object that no administrator can change, JSON-ready; never change them."""
        members: dict[str, Any] = {"inputSchema": self.signature.input_schema}
        if self.signature.output_schema is not None:
            members["outputSchema"] = self.signature.output_schema
        return members | wire_members(icons=self.icons, annotations=self.annotations, meta=self.meta)


_registry: Registry[RegisteredTool] = Registry("tool", InvalidTool)


def registered_tools() -> Mapping[str, RegisteredTool]:
    """The tools of this process, by name."""
    return _registry.declared


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
    task: TaskMode = TaskMode.NEVER,
    task_after: float | None = None,
    annotations: mcp_types.ToolAnnotations | None = None,
    icons: Sequence[mcp_types.Icon] | None = None,
    input_schema: dict[str, Any] | None = None,
    requires: Mapping[str, Any] | None = None,
    asks: Sequence[Schema] = (),
    permissions: Sequence[str] = (),
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...


def tool(function: Any = None, /, **options: Any) -> Any:
    """Offer a function (plain or `async`) as a tool, as `@tool` or `@tool(…)`; the function itself is returned.

    `name`: what clients call it by, by default the function's name. `title`: what people see. `description`: what the
    model reads, by default the docstring. `cancel`: how far a cancellation may go. `cooperative_grace`, `hard_grace`,
    `time_limit`: seconds, None for the site's default. `queue`: the Celery queue. `task`: whether its calls become
    tasks, and `task_after`, where they do when slow: after how many seconds, None for the site's default.
    `annotations`, `icons`, `meta`: as the protocol has them. `requires`: client capabilities that it needs, such as
    `{"elicitation": {}}`. `asks`: forms that it may have its user fill in, refused now where they could not be shown.
    `permissions` (all of Django's, as `app_label.codename`) and `groups` (one of them): what a caller's user must have;
    for others there is no such tool. `scopes`: what a caller's token must have been given for; without, a call is
    challenged.
    `input_schema`: a JSON Schema to show and check instead of the signature's; the function then takes one parameter
    besides its context, the validated arguments as a dictionary.

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
    task: TaskMode = TaskMode.NEVER,
    icons: Sequence[mcp_types.Icon] | None = None,
    input_schema: dict[str, Any] | None = None,
    requires: Mapping[str, Any] | None = None,
    asks: Sequence[Schema] = (),
    permissions: Sequence[str] = (),
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    **options: Any,
) -> None:
    location = _registry.location_of(function)
    name = function.__name__ if name is None else name
    with _registry.explain(name, location):
        check_name(name)
        _check_options(icons=icons or (), requires=requires, **options)
        check_forms(asks)
        access = access_of(permissions, groups, scopes)
        read = signature.read(function, input_schema)
        registered = RegisteredTool(
            name=name,
            title=title,
            description=description or signature.description_of(function) or title or spoken(name),
            function=function,
            signature=read,
            location=location,
            header_params=header_params(read.input_schema),
            cancel_policy=CancelPolicy(cancel),
            task=TaskMode(task),
            icons=tuple(icons or ()),
            requires=requires,
            access=access,
            **options,
        )
        _registry.add(name, registered)


def _check_options(
    *,
    icons: Sequence[mcp_types.Icon],
    requires: Mapping[str, Any] | None,
    cooperative_grace: float | None = None,
    hard_grace: float | None = None,
    time_limit: float | None = None,
    queue: str | None = None,
    task_after: float | None = None,
    annotations: mcp_types.ToolAnnotations | None = None,
    meta: Mapping[str, Any] | None = None,
) -> None:
    at_least_zero = {"cooperative_grace": cooperative_grace, "hard_grace": hard_grace, "task_after": task_after}
    for option, seconds in at_least_zero.items():
        if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
            raise UnusableOptionError(f"{option} is a number of seconds, 0 or more")
    if time_limit is not None and not (math.isfinite(time_limit) and time_limit > 0):
        raise UnusableOptionError("time_limit is a number of seconds above 0")
    if queue is not None and not is_name(queue):
        raise UnusableOptionError("a queue's name has 1 to 128 of the characters A-Z a-z 0-9 _ . -")
    check_icons(icons)
    check_annotations(annotations, mcp_types.ToolAnnotations)
    check_meta(meta)
    if requires is not None:
        mcp_types.ClientCapabilities.model_validate(requires)
