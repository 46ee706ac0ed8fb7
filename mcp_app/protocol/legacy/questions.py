"""Decide what a legacy client can be asked, and build the requests that ask it.

Takes InputRequests of the modern era and returns requests such as `elicitation/create`. A question
that a revision cannot show as intended is rejected. Source: client/elicitation, client/sampling,
client/roots and the schema of each revision.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_app.protocol.errors import RequestId
from mcp_app.protocol.headers import Accept
from mcp_app.protocol.jsonrpc import notification
from mcp_app.protocol.legacy.results import content_block
from mcp_app.protocol.revisions import Revision

_ELICIT: Final = "elicitation/create"
_SAMPLE: Final = "sampling/createMessage"
_CLIENT_FEATURES: Final = frozenset({"elicitation", "sampling", "roots"})
_PLAIN_CONTENT_TYPES: Final = frozenset({"text", "image", "audio"})
"""Content types of a sample's messages in revisions whose samples have no tools."""

Members = dict[str, Any]


def askable_capabilities(revision: Revision, capabilities: Mapping[str, Any], accept: Accept) -> Members:
    """Return the ClientCapabilities of a client, limited to those by which it can be asked.

    Capabilities that its revision does not define are removed. A client can only be asked on an
    event stream.
    """
    known = {name: value for name, value in capabilities.items() if name not in _CLIENT_FEATURES}
    if not accept.event_stream:
        return known
    known |= {name: capabilities[name] for name in _CLIENT_FEATURES if capabilities.get(name) is not None}
    if not revision.elicitation:
        known.pop("elicitation", None)
    if not revision.modes:
        known |= {name: {} for name in ("elicitation", "sampling") if name in known}
    return known


def find_obstacle(revision: Revision, request: Mapping[str, Any]) -> str | None:
    """Return a sentence that explains why `revision` cannot ask this, or `None` if it can."""
    if revision.modes:
        return None
    if request["method"] == _ELICIT:
        return _find_form_obstacle(revision, request["params"])
    if request["method"] == _SAMPLE and not _PLAIN_CONTENT_TYPES.issuperset(
        each["type"] for _, each in _sample_contents(request)
    ):
        return f"This call sends tool results to the client's model, which MCP {revision.name} does not support."
    return None


def question_request(
    revision: Revision, request_id: RequestId, request: Mapping[str, Any], elicitation_id: str
) -> Members:
    """Return the JSON-RPC request that asks an InputRequest.

    `elicitation_id` is used when the user is sent to a page.
    """
    params = dict(request.get("params") or {})
    if request["method"] == _ELICIT:
        params = _elicitation_params(revision, params, elicitation_id)
    elif request["method"] == _SAMPLE and not revision.modes:
        params["messages"] = [
            {"role": role, "content": content_block(revision, content)} for role, content in _sample_contents(request)
        ]
    return {"jsonrpc": "2.0", "id": request_id, "method": request["method"], "params": params}


def elicitation_complete(elicitation_id: str) -> Members:
    """Return `notifications/elicitation/complete`: the user has finished at a page."""
    return notification("notifications/elicitation/complete", {"elicitationId": elicitation_id})


def question_cancelled(request_id: RequestId, reason: str) -> Members:
    """Return `notifications/cancelled`: the server no longer needs the answer to a request."""
    return notification("notifications/cancelled", {"requestId": request_id, "reason": reason})


def _find_form_obstacle(revision: Revision, params: Mapping[str, Any]) -> str | None:
    if not revision.elicitation:
        return f"This call asks its user for input, which MCP {revision.name} does not support."
    if params.get("mode") == "url":
        return f"This call sends its user to a page, which MCP {revision.name} does not support."
    if any(field.get("type") == "array" for field in params["requestedSchema"]["properties"].values()):
        return f"This call asks its user to choose several items of a list, which MCP {revision.name} does not support."
    return None


def _elicitation_params(revision: Revision, params: Members, elicitation_id: str) -> Members:
    if revision.modes:
        return {**params, "elicitationId": elicitation_id} if params.get("mode") == "url" else params
    schema = params["requestedSchema"]
    plain: Members = {
        "type": "object",
        "properties": {name: _plain_field(field) for name, field in schema["properties"].items()},
    }
    if "required" in schema:
        plain["required"] = schema["required"]
    return {"message": params["message"], "requestedSchema": plain}


def _plain_field(field: Mapping[str, Any]) -> Members:
    """Return a form field as the first revision with forms defines it.

    Only a boolean has a default there, and titles of choices are a separate list.
    """
    hidden = {"oneOf"} if field["type"] == "boolean" else {"oneOf", "default"}
    plain = {name: value for name, value in field.items() if name not in hidden}
    if (choices := field.get("oneOf")) is not None:
        plain["enum"] = [choice["const"] for choice in choices]
        plain["enumNames"] = [choice["title"] for choice in choices]
    return plain


def _sample_contents(request: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each content of a sample's messages, with its role."""
    for message in request["params"]["messages"]:
        contents = message["content"] if isinstance(message["content"], list) else [message["content"]]
        for content in contents:
            yield message["role"], content
