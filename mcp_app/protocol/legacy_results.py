"""Results and errors as a legacy revision has them: what is newer than it is left out, or said in its words.

Takes what handlers make for the modern era. Refuses to add anything. Source: the schema and the changelog of
each revision.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mcp_app.protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    Rejection,
)
from mcp_app.protocol.revisions import Revision

RESOURCE_NOT_FOUND: Final = -32002

_OF_A_RESOURCE: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
_RESERVED: Final = "io.modelcontextprotocol/"
_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_WITH_TITLES: Final = frozenset({"title", "outputSchema", "_meta"})
_WITH_ICONS: Final = frozenset({"icons", "description", "websiteUrl"})

Members = dict[str, Any]


def as_of(revision: Revision, method: str, result: Mapping[str, Any]) -> Members:
    """The result of `method` as `revision` has it. `result` is left as it is."""
    members = {name: value for name, value in result.items() if name not in _MODERN_MEMBERS}
    if "_meta" in members:
        meta = {key: value for key, value in members.pop("_meta").items() if not key.startswith(_RESERVED)}
        members |= {"_meta": meta} if meta else {}
    change = _CHANGES.get(method)
    return members if change is None else change(revision, members)


def initialized(
    revision: Revision, capabilities: Mapping[str, Any], server_info: Mapping[str, Any], instructions: str | None
) -> Members:
    """The result of `initialize`: without the extensions, which only the modern wire has."""
    hidden = (frozenset() if revision.titles else {"title"}) | (frozenset() if revision.icons else _WITH_ICONS)
    result: Members = {
        "protocolVersion": revision.name,
        "capabilities": {name: value for name, value in capabilities.items() if name != "extensions"},
        "serverInfo": {name: value for name, value in server_info.items() if name not in hidden},
    }
    return result if instructions is None else {**result, "instructions": instructions}


def rejection_as_of(method: str, rejection: Rejection) -> Rejection:
    """The error of `method` with the code and status of the legacy era, where 404 says that a session is gone."""
    if rejection.code == METHOD_NOT_FOUND:
        return replace(rejection, status=200)
    if rejection.code == MISSING_CLIENT_CAPABILITY:
        return replace(rejection, code=INVALID_REQUEST, status=200)
    if method in _OF_A_RESOURCE and rejection.code == INVALID_PARAMS and rejection.data is not None:
        return replace(rejection, code=RESOURCE_NOT_FOUND)
    return rejection


def _called(revision: Revision, result: Members) -> Members:
    structured = result.get("structuredContent")
    if not revision.titles or not isinstance(structured, dict):
        # Not lost: it is repeated as JSON text in the content.
        result.pop("structuredContent", None)
    return {**result, "content": [block(revision, each) for each in result["content"]]}


def _prompted(revision: Revision, result: Members) -> Members:
    messages = [{**message, "content": block(revision, message["content"])} for message in result["messages"]]
    return {**result, "messages": messages}


def _read(revision: Revision, result: Members) -> Members:
    if revision.titles:
        return result
    return {**result, "contents": [_without(contents, {"_meta"}) for contents in result["contents"]]}


def _listed(name: str) -> Callable[[Revision, Members], Members]:
    return lambda revision, result: {**result, name: [_item(revision, item) for item in result[name]]}


def _item(revision: Revision, item: Mapping[str, Any]) -> Members:
    """A tool, resource, template or prompt."""
    hidden = frozenset() if revision.titles else _WITH_TITLES
    listed = _without(item, hidden if revision.icons else hidden | {"icons"})
    schema = listed.get("outputSchema")
    if schema is not None and schema.get("type") != "object":
        del listed["outputSchema"]
    if isinstance(arguments := listed.get("arguments"), list):
        listed["arguments"] = [_without(argument, hidden) for argument in arguments]
    return _with_old_annotations(revision, listed)


def block(revision: Revision, block: Mapping[str, Any]) -> Members:
    """A content block as `revision` has it."""
    if block["type"] == "resource_link" and not revision.titles:
        return {"type": "text", "text": f"{block['name']}: {block['uri']}"}
    shown = _without(block, frozenset() if revision.icons else {"icons"})
    if not revision.titles:
        shown = _with_old_annotations(revision, _without(shown, {"_meta"}))
        if shown["type"] == "resource":
            shown["resource"] = _without(shown["resource"], {"_meta"})
    return shown


def _with_old_annotations(revision: Revision, item: Members) -> Members:
    annotations = item.get("annotations")
    if revision.titles or not isinstance(annotations, Mapping) or "lastModified" not in annotations:
        return item
    return {**item, "annotations": _without(annotations, {"lastModified"})}


def _without(members: Mapping[str, Any], hidden: frozenset[str] | set[str]) -> Members:
    return {name: value for name, value in members.items() if name not in hidden}


_CHANGES: Final[Mapping[str, Callable[[Revision, Members], Members]]] = MappingProxyType(
    {
        "tools/list": _listed("tools"),
        "tools/call": _called,
        "resources/list": _listed("resources"),
        "resources/templates/list": _listed("resourceTemplates"),
        "resources/read": _read,
        "prompts/list": _listed("prompts"),
        "prompts/get": _prompted,
    }
)
