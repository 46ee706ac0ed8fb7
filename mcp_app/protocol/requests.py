"""A request that passed the checks of the protocol (`Route`), and the params of each method.

Params of the wrong type are -32602, in the method. An optional member that is null counts as
absent, because many clients write every member that they know. The catalogue checks whether a tool,
resource, prompt or cursor exists and whether the arguments fit. Source: 2026-07-28 schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeGuard

from mcp_types import SubscriptionFilter

from mcp_app.protocol import jsonrpc
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, RequestId, fail
from mcp_app.protocol.formats import MAX_URI_CHARS, is_uri
from mcp_app.protocol.headers import Accept
from mcp_app.protocol.metadata import RequestMetadata

_REFERENCES: Final[Mapping[str, str]] = MappingProxyType({"ref/prompt": "name", "ref/resource": "uri"})
"""The member of `params.ref` that names a prompt or resource, by the type of the reference."""


@dataclass(frozen=True)
class Route:
    """A request that may be dispatched.

    It is well-formed and of a served revision, and its headers match its body.
    """

    request_id: RequestId
    method: str
    params: dict[str, Any]
    """As sent, including `_meta`."""
    metadata: RequestMetadata
    accept: Accept


@dataclass(frozen=True)
class InputResponses:
    """The answers that a request brings back to an InputRequiredResult.

    A first request brings none.
    """

    input_responses: dict[str, Any] = field(default_factory=dict)
    """The answers by the keys of that result. Their values are unchecked."""
    request_state: str | None = None
    """The `requestState` of that result. It is unchecked too."""


@dataclass(frozen=True)
class ListRequest:
    """`tools/list`, `resources/list`, `resources/templates/list`, `prompts/list`."""

    cursor: str | None
    """`None` asks for the first page. An empty string is a cursor."""


@dataclass(frozen=True)
class CallTool:
    """`tools/call`."""

    name: str
    arguments: dict[str, Any]
    """Empty if the client sent none."""
    answers: InputResponses = field(default_factory=InputResponses)


@dataclass(frozen=True)
class ReadResource:
    """`resources/read`."""

    uri: str


@dataclass(frozen=True)
class GetPrompt:
    """`prompts/get`."""

    name: str
    arguments: dict[str, str]
    """Empty if the client sent none."""


@dataclass(frozen=True)
class Complete:
    """`completion/complete`."""

    of_prompt: bool
    """Whether `ref` names a prompt. Otherwise it names a resource template."""
    ref: str
    """The name of the prompt, the template, or a URI that matches it."""
    argument: str
    value: str
    context: dict[str, str]
    """The other arguments, as far as the client knows them."""


@dataclass(frozen=True)
class Listen:
    """`subscriptions/listen`: the notifications that the client asks for."""

    tools_list_changed: bool
    prompts_list_changed: bool
    resources_list_changed: bool
    resource_subscriptions: tuple[str, ...]
    """Resource URIs."""


def read_list_page(route: Route) -> ListRequest | Rejection:
    cursor = route.params.get("cursor")
    if not isinstance(cursor, str | None):
        return fail(INVALID_PARAMS, "params.cursor must be a string.", route.request_id)
    return ListRequest(cursor)


def read_call_tool(route: Route) -> CallTool | Rejection:
    name, arguments = route.params.get("name"), optional_object(route.params, "arguments")
    if not isinstance(name, str):
        return fail(INVALID_PARAMS, "params.name must be the name of a tool.", route.request_id)
    if not isinstance(arguments, dict):
        return fail(INVALID_PARAMS, "params.arguments must be an object.", route.request_id)
    answers = read_input_responses(route)
    return answers if isinstance(answers, Rejection) else CallTool(name, arguments, answers)


def read_input_responses(route: Route) -> InputResponses | Rejection:
    """Read the answers in the params of `tools/call`, `resources/read` or `prompts/get`."""
    responses, state = optional_object(route.params, "inputResponses"), route.params.get("requestState")
    if not isinstance(responses, dict):
        return fail(INVALID_PARAMS, "params.inputResponses must be an object of responses by key.", route.request_id)
    if not isinstance(state, str | None):
        return fail(INVALID_PARAMS, "params.requestState must be the string that the server sent.", route.request_id)
    return InputResponses(responses, state)


def read_read_resource(route: Route) -> ReadResource | Rejection:
    uri = route.params.get("uri")
    if not is_uri(uri):
        data = {"uri": uri} if isinstance(uri, str) and len(uri) <= MAX_URI_CHARS else None
        return fail(INVALID_PARAMS, "params.uri must be an absolute URI (RFC 3986).", route.request_id, data=data)
    return ReadResource(uri)


def read_get_prompt(route: Route) -> GetPrompt | Rejection:
    name, arguments = route.params.get("name"), optional_object(route.params, "arguments")
    if not isinstance(name, str):
        return fail(INVALID_PARAMS, "params.name must be the name of a prompt.", route.request_id)
    if not _is_string_map(arguments):
        return fail(INVALID_PARAMS, "params.arguments must be an object of strings.", route.request_id)
    return GetPrompt(name, arguments)


def read_complete(route: Route) -> Complete | Rejection:
    ref, argument, context = (optional_object(route.params, name) for name in ("ref", "argument", "context"))
    member = _REFERENCES.get(str(ref.get("type"))) if isinstance(ref, dict) else None
    if member is None or not isinstance(ref.get(member), str):
        message = "params.ref must be a ref/prompt with its name or a ref/resource with its uri."
        return fail(INVALID_PARAMS, message, route.request_id)
    if not _is_string_map(argument) or not argument.keys() >= {"name", "value"}:
        return fail(INVALID_PARAMS, "params.argument must have a name and a value, both strings.", route.request_id)
    known = optional_object(context, "arguments") if isinstance(context, dict) else None
    if not _is_string_map(known):
        return fail(INVALID_PARAMS, "params.context.arguments must be an object of strings.", route.request_id)
    return Complete(member == "name", ref[member], argument["name"], argument["value"], known)


def read_listen(route: Route) -> Listen | Rejection:
    """Read the filter of a subscription.

    Unknown members are ignored, so the acknowledgement omits them.
    """
    chosen = jsonrpc.validate(SubscriptionFilter, route.params.get("notifications"), strict=True)
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


def optional_object(members: Mapping[str, Any], name: str) -> Any:
    """Return a member, or an empty object if it is absent or null."""
    return {} if (value := members.get(name)) is None else value


def _is_string_map(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(member, str) for member in value.values())
