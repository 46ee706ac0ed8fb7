"""The params of each method served, from a `Route`; mistyped ones are -32602, in the method.

Refuses null where the schema has a member that is either absent or typed. Whether a tool, resource,
prompt or cursor exists, and whether the arguments fit, is the catalogue's to say. Source: 2026-07-28 schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeGuard

from mcp_types import SubscriptionFilter

from mcp_app.protocol import bounded
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, fail
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.uris import MAX_URI_CHARS, is_uri

_REFERENCES: Final[Mapping[str, str]] = MappingProxyType({"ref/prompt": "name", "ref/resource": "uri"})
"""What a completion may be of, and the member of `params.ref` that names it."""


@dataclass(frozen=True)
class Answers:
    """What a request brings back to an InputRequiredResult; nothing, in a request that is the first."""

    input_responses: dict[str, Any] = field(default_factory=dict)
    """The answers to what that result asked for, by its keys; their values are unchecked."""
    request_state: str | None = None
    """As that result had it, if the client is honest."""


@dataclass(frozen=True)
class ListPage:
    """`tools/list`, `resources/list`, `resources/templates/list`, `prompts/list`."""

    cursor: str | None
    """None: the first page. An empty string is a cursor."""


@dataclass(frozen=True)
class CallTool:
    """`tools/call`."""

    name: str
    arguments: dict[str, Any]
    """Empty when the client sent none."""
    answers: Answers = field(default_factory=Answers)


@dataclass(frozen=True)
class ReadResource:
    """`resources/read`."""

    uri: str


@dataclass(frozen=True)
class GetPrompt:
    """`prompts/get`."""

    name: str
    arguments: dict[str, str]
    """Empty when the client sent none."""


@dataclass(frozen=True)
class Complete:
    """`completion/complete`."""

    of_prompt: bool
    """Whether `ref` names a prompt; else a resource template."""
    ref: str
    """The prompt's name; the template, or a URI that it has."""
    argument: str
    value: str
    context: dict[str, str]
    """The other arguments, as far as they are known."""


@dataclass(frozen=True)
class Listen:
    """`subscriptions/listen`: what the client opts in to."""

    tools_list_changed: bool
    prompts_list_changed: bool
    resources_list_changed: bool
    resource_subscriptions: tuple[str, ...]
    """Resource URIs."""


def read_list_page(route: Route) -> ListPage | Rejection:
    if not isinstance(route.params.get("cursor", ""), str):
        return fail(INVALID_PARAMS, "params.cursor must be a string.", route.request_id)
    return ListPage(route.params.get("cursor"))


def read_call_tool(route: Route) -> CallTool | Rejection:
    name, arguments = route.params.get("name"), route.params.get("arguments", {})
    if not isinstance(name, str):
        return fail(INVALID_PARAMS, "params.name must be the name of a tool.", route.request_id)
    if not isinstance(arguments, dict):
        return fail(INVALID_PARAMS, "params.arguments must be an object.", route.request_id)
    answers = read_answers(route)
    return answers if isinstance(answers, Rejection) else CallTool(name, arguments, answers)


def read_answers(route: Route) -> Answers | Rejection:
    """Of `tools/call`, `resources/read` and `prompts/get`."""
    responses, state = route.params.get("inputResponses", {}), route.params.get("requestState")
    if not isinstance(responses, dict):
        return fail(INVALID_PARAMS, "params.inputResponses must be an object of responses by key.", route.request_id)
    if "requestState" in route.params and not isinstance(state, str):
        return fail(INVALID_PARAMS, "params.requestState must be the string that the server sent.", route.request_id)
    return Answers(responses, state)


def read_read_resource(route: Route) -> ReadResource | Rejection:
    uri = route.params.get("uri")
    if not is_uri(uri):
        data = {"uri": uri} if isinstance(uri, str) and len(uri) <= MAX_URI_CHARS else None
        return fail(INVALID_PARAMS, "params.uri must be an absolute URI (RFC 3986).", route.request_id, data=data)
    return ReadResource(uri)


def read_get_prompt(route: Route) -> GetPrompt | Rejection:
    name, arguments = route.params.get("name"), route.params.get("arguments", {})
    if not isinstance(name, str):
        return fail(INVALID_PARAMS, "params.name must be the name of a prompt.", route.request_id)
    if not _are_texts(arguments):
        return fail(INVALID_PARAMS, "params.arguments must be an object of strings.", route.request_id)
    return GetPrompt(name, arguments)


def read_complete(route: Route) -> Complete | Rejection:
    ref, argument, context = (route.params.get(name, {}) for name in ("ref", "argument", "context"))
    member = _REFERENCES.get(str(ref.get("type"))) if isinstance(ref, dict) else None
    if member is None or not isinstance(ref.get(member), str):
        message = "params.ref must be a ref/prompt with its name or a ref/resource with its uri."
        return fail(INVALID_PARAMS, message, route.request_id)
    if not _are_texts(argument) or not argument.keys() >= {"name", "value"}:
        return fail(INVALID_PARAMS, "params.argument must have a name and a value, both strings.", route.request_id)
    known = context.get("arguments", {}) if isinstance(context, dict) else None
    if not _are_texts(known):
        return fail(INVALID_PARAMS, "params.context.arguments must be an object of strings.", route.request_id)
    return Complete(member == "name", ref[member], argument["name"], argument["value"], known)


def _are_texts(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(member, str) for member in value.values())


def read_listen(route: Route) -> Listen | Rejection:
    """Unknown members of the filter are ignored: they are what the acknowledgement leaves out."""
    chosen = bounded.parse(SubscriptionFilter, route.params.get("notifications"), strict=True)
    if chosen is None:
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
