"""The params of each method served, from a `Route`; mistyped ones are -32602, in the method.

Refuses null where the schema has a member that is either absent or typed. Whether a tool or cursor exists,
and whether the arguments fit their schema, is the catalogue's to say. Source: 2026-07-28 schema.
"""

from dataclasses import dataclass, field
from typing import Any

from mcp_types import SubscriptionFilter
from pydantic import ValidationError

from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, fail
from mcp_app.protocol.inbound import Route


@dataclass(frozen=True)
class ListTools:
    """`tools/list`."""

    cursor: str | None
    """None: the first page. An empty string is a cursor."""


@dataclass(frozen=True)
class CallTool:
    """`tools/call`."""

    name: str
    arguments: dict[str, Any]
    """Empty when the client sent none."""
    input_responses: dict[str, Any] = field(default_factory=dict)
    """The answers to what an earlier response asked for, by its keys; their values are unchecked."""
    request_state: str | None = None
    """As that response had it, if the client is honest."""


@dataclass(frozen=True)
class Listen:
    """`subscriptions/listen`: what the client opts in to."""

    tools_list_changed: bool
    prompts_list_changed: bool
    resources_list_changed: bool
    resource_subscriptions: tuple[str, ...]
    """Resource URIs."""


def read_list_tools(route: Route) -> ListTools | Rejection:
    if not isinstance(route.params.get("cursor", ""), str):
        return fail(INVALID_PARAMS, "params.cursor must be a string.", route.request_id)
    return ListTools(route.params.get("cursor"))


def read_call_tool(route: Route) -> CallTool | Rejection:
    name, arguments = route.params.get("name"), route.params.get("arguments", {})
    if not isinstance(name, str):
        return fail(INVALID_PARAMS, "params.name must be the name of a tool.", route.request_id)
    if not isinstance(arguments, dict):
        return fail(INVALID_PARAMS, "params.arguments must be an object.", route.request_id)
    responses, state = route.params.get("inputResponses", {}), route.params.get("requestState")
    if not isinstance(responses, dict):
        return fail(INVALID_PARAMS, "params.inputResponses must be an object of responses by key.", route.request_id)
    if "requestState" in route.params and not isinstance(state, str):
        return fail(INVALID_PARAMS, "params.requestState must be the string that the server sent.", route.request_id)
    return CallTool(name, arguments, responses, state)


def read_listen(route: Route) -> Listen | Rejection:
    """Unknown members of the filter are ignored: they are what the acknowledgement leaves out."""
    try:
        chosen = SubscriptionFilter.model_validate(route.params.get("notifications"), strict=True, by_name=False)
    except ValidationError:
        return fail(
            INVALID_PARAMS,
            "params.notifications must be an object of booleans, and resourceSubscriptions a list of URIs.",
            route.request_id,
        )
    return Listen(
        tools_list_changed=bool(chosen.tools_list_changed),
        prompts_list_changed=bool(chosen.prompts_list_changed),
        resources_list_changed=bool(chosen.resources_list_changed),
        resource_subscriptions=tuple(chosen.resource_subscriptions or ()),
    )
