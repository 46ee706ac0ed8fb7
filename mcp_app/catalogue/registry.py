"""The `tool` decorator, its checks, and the tools of this process.

This module does not read the database: `catalogue` joins the declarations with their rows.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar, overload

import mcp_types

from mcp_app.auth.principal import EVERYBODY, Access
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
from mcp_app.catalogue.input.forms import Schema
from mcp_app.catalogue.schema import signature
from mcp_app.catalogue.schema.json_schema import Path, header_params
from mcp_app.catalogue.schema.signature import Signature
from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.lifecycle.limits.call_rates import CallRate
from mcp_app.states import CancelPolicy, TaskMode

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class RegisteredTool:
    """One tool as its code declares it.

    Times are in seconds. `None` for a time, the queue, `rate`, `concurrency` or `json_text` means
    the site's default.
    """

    name: str
    title: str | None
    description: str
    function: Callable[..., Any]
    signature: Signature
    location: str
    """The module and qualified name of the function."""
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
    """The client capabilities that the tool needs: a ClientCapabilities object."""
    meta: Mapping[str, Any] | None = None
    access: Access = EVERYBODY
    rate: CallRate | None = None
    """How often one caller may call it."""
    concurrency: int | None = None
    """How many calls of it one caller may have open."""
    json_text: bool | None = None
    """Whether arguments that are sent as JSON text are parsed."""

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def wire_members(self) -> dict[str, Any]:
        """The members of the MCP Tool object that administrators cannot change.

        Shared: do not change them.
        """
        members: dict[str, Any] = {"inputSchema": self.signature.input_schema}
        if self.signature.output_schema is not None:
            members["outputSchema"] = self.signature.output_schema
        return members | wire_members(icons=self.icons, annotations=self.annotations, meta=self.meta)


_registry: Registry[RegisteredTool] = Registry("tool", InvalidTool)


def registered_tools() -> Mapping[str, RegisteredTool]:
    """Return the tools of this process, by name."""
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
    endpoints: Sequence[str] = (DEFAULT_ENDPOINT,),
    rate: str | None = None,
    concurrency: int | None = None,
    json_text: bool | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...


def tool(function: Any = None, /, **options: Any) -> Any:
    """Offer a function (plain or `async`) as a tool, as `@tool` or `@tool(…)`; return it.

    Example::

        @tool(title="Add", time_limit=10)
        def add(a: int, b: int) -> int:
            "Add two numbers."
            return a + b

    The parameters are the tool's arguments: their annotations become its input schema, the return
    annotation its output schema. A parameter annotated `ToolContext` receives the context of the
    call instead. The function runs in a Celery worker.

    It returns text, `None`, an `Image`, an `Audio` or another content block, a list with such
    blocks, an `mcp_types.CallToolResult`, or any other value to send as JSON. It raises `ToolError`
    to report an error to the model.

    - `name` (str): the name for clients, 1 to 128 of `A-Z a-z 0-9 _ . -`. Default: the function's
      name.
    - `title` (str): the display name for people.
    - `description` (str): the description for models. Default: the docstring up to a section such
      as `Args:`.
    - `cancel` (`CancelPolicy`): how far a cancellation may go.
    - `cooperative_grace`, `hard_grace` (float): seconds from a cancellation to the interrupt, and
      to the kill. `None`: `MCP["COOPERATIVE_GRACE"]` and `MCP["HARD_GRACE"]`.
    - `time_limit` (float): seconds that a run may take. Then the call is cancelled. `None`:
      `MCP["DEFAULT_TIME_LIMIT"]`.
    - `queue` (str): the Celery queue, named with the same characters as a tool. `None`:
      `MCP["QUEUE"]`.
    - `task` (`TaskMode`): whether calls become tasks.
    - `task_after` (float): seconds after which a slow call becomes a task, if `task` is
      `WHEN_SLOW`. `None`: `MCP["TASK_AFTER"]`.
    - `annotations` (`mcp_types.ToolAnnotations`), `icons` (list of `mcp_types.Icon`), `meta`
      (dict): as the protocol defines them.
    - `requires` (dict): client capabilities that the tool needs, such as
      `{"elicitation": {"form": {}}}`. A client without them is refused before the call is stored.
    - `asks`: forms that the tool may ask its user to fill in, as `ToolContext.elicit` takes them.
      They are checked now.
    - `permissions` (`app_label.codename`) and `groups` (names): the caller's user must have all of
      the permissions, and be in one of the groups. For other callers the tool does not exist.
    - `scopes`: the scopes that the caller's token must have. Without them a call is challenged.
    - `endpoints`: the names in `MCP["ENDPOINTS"]` at which the tool is offered.
    - `rate` (str): how often one caller may call it, such as `"10/m"`. The letter is the first of
      second, minute, hour or day. `None`: `MCP["TOOL_RATE"]`.
    - `concurrency` (int): how many calls of it one caller may have open. `None`:
      `MCP["TOOL_CONCURRENCY"]`.
    - `json_text` (bool): whether arguments that are sent as JSON text are parsed if the schema
      allows no string. `None`: `MCP["JSON_TEXT_ARGUMENTS"]`.
    - `input_schema` (dict): a JSON Schema to use instead of the signature's. The function then
      takes one parameter besides its context: the validated arguments, as a dictionary.

    Raises `InvalidTool` if the tool cannot be offered. Source: 2026-07-28 server/tools; for tasks,
    ext-tasks specification/draft/tasks.
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
    endpoints: Sequence[str] = (DEFAULT_ENDPOINT,),
    rate: str | None = None,
    **options: Any,
) -> None:
    location = _registry.location_of(function)
    name = function.__name__ if name is None else name
    with _registry.explain(name, location):
        check_name(name)
        _check_options(icons=icons or (), requires=requires, **options)
        check_forms(asks)
        access = access_of(permissions, groups, scopes, endpoints)
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
            rate=None if rate is None else CallRate.read(rate),
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
    concurrency: int | None = None,
    json_text: bool | None = None,
    meta: Mapping[str, Any] | None = None,
) -> None:
    at_least_zero = {"cooperative_grace": cooperative_grace, "hard_grace": hard_grace, "task_after": task_after}
    for option, seconds in at_least_zero.items():
        if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
            raise UnusableOptionError(f"{option} must be a number of seconds, at least 0")
    if time_limit is not None and not (math.isfinite(time_limit) and time_limit > 0):
        raise UnusableOptionError("time_limit must be a number of seconds above 0")
    if concurrency is not None and (isinstance(concurrency, bool) or concurrency < 1):
        raise UnusableOptionError("concurrency must be a whole number of at least 1")
    if not isinstance(json_text, bool | None):
        raise UnusableOptionError("json_text must be True, False or None")
    if queue is not None and not is_name(queue):
        raise UnusableOptionError("a queue's name must have 1 to 128 characters from A-Z a-z 0-9 _ . -")
    check_icons(icons)
    check_annotations(annotations, mcp_types.ToolAnnotations)
    check_meta(meta)
    if requires is not None:
        mcp_types.ClientCapabilities.model_validate(requires)
