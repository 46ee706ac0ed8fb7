"""What a client of a legacy revision can be asked, and the requests that ask it: `elicitation/create` and its kin.

Takes InputRequests as the modern era has them. Refuses what a revision could not show as it is meant.
Source: client/elicitation, client/sampling, client/roots and the schema of each revision.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_app.protocol.accept import Accept
from mcp_app.protocol.errors import RequestId
from mcp_app.protocol.jsonrpc import notification
from mcp_app.protocol.legacy_results import block
from mcp_app.protocol.revisions import Revision

_ELICIT: Final = "elicitation/create"
_SAMPLE: Final = "sampling/createMessage"
_ASKED: Final = frozenset({"elicitation", "sampling", "roots"})
_CONTENTS: Final = frozenset({"text", "image", "audio"})
"""What a message of a sample may hold where it has no tools."""

Members = dict[str, Any]


def askable(revision: Revision, capabilities: Mapping[str, Any], accept: Accept) -> Members:
    """What a client has declared, without what it cannot be asked after all: a ClientCapabilities object.

    What its revision does not know is not meant; and it can be asked on an event stream only.
    """
    known = {name: value for name, value in capabilities.items() if name not in _ASKED}
    if not accept.event_stream:
        return known
    known |= {name: capabilities[name] for name in _ASKED if capabilities.get(name) is not None}
    if not revision.elicitation:
        known.pop("elicitation", None)
    if not revision.modes:
        known |= {name: {} for name in ("elicitation", "sampling") if name in known}
    return known


def obstacle(revision: Revision, request: Mapping[str, Any]) -> str | None:
    """Why `revision` cannot ask this InputRequest, as a sentence; None where it can."""
    if revision.modes:
        return None
    if request["method"] == _ELICIT:
        return _obstacle_of_form(revision, request["params"])
    if request["method"] == _SAMPLE and not _CONTENTS.issuperset(each["type"] for _, each in _spoken(request)):
        return f"This call gives its client's model the results of tools, which MCP {revision.name} has not."
    return None


def as_request(revision: Revision, request_id: RequestId, request: Mapping[str, Any], elicitation_id: str) -> Members:
    """The JSON-RPC request that asks an InputRequest without an `obstacle`. `elicitation_id`: for an address."""
    params = dict(request.get("params") or {})
    if request["method"] == _ELICIT:
        params = _elicited(revision, params, elicitation_id)
    elif request["method"] == _SAMPLE and not revision.modes:
        params["messages"] = [{"role": role, "content": block(revision, content)} for role, content in _spoken(request)]
    return {"jsonrpc": "2.0", "id": request_id, "method": request["method"], "params": params}


def completed(elicitation_id: str) -> Members:
    """`notifications/elicitation/complete`: the user has done what an address was for."""
    return notification("notifications/elicitation/complete", {"elicitationId": elicitation_id})


def withdrawn(request_id: RequestId, reason: str) -> Members:
    """`notifications/cancelled`: nobody waits for the answer to a request any more."""
    return notification("notifications/cancelled", {"requestId": request_id, "reason": reason})


def _obstacle_of_form(revision: Revision, params: Mapping[str, Any]) -> str | None:
    if not revision.elicitation:
        return f"This call asks its user for input, which MCP {revision.name} cannot."
    if params.get("mode") == "url":
        return f"This call sends its user to a page, which MCP {revision.name} cannot."
    if any(field.get("type") == "array" for field in params["requestedSchema"]["properties"].values()):
        return f"This call asks its user to choose several of a list, which MCP {revision.name} cannot."
    return None


def _elicited(revision: Revision, params: Members, elicitation_id: str) -> Members:
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
    """A field as the first forms had it: only a boolean has a default, and choices have their titles beside them."""
    hidden = {"oneOf"} if field["type"] == "boolean" else {"oneOf", "default"}
    plain = {name: value for name, value in field.items() if name not in hidden}
    if (choices := field.get("oneOf")) is not None:
        plain["enum"] = [choice["const"] for choice in choices]
        plain["enumNames"] = [choice["title"] for choice in choices]
    return plain


def _spoken(request: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each content of a sample's messages, with who says it."""
    for message in request["params"]["messages"]:
        contents = message["content"] if isinstance(message["content"], list) else [message["content"]]
        for content in contents:
            yield message["role"], content
