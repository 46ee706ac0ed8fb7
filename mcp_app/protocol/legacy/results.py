"""Convert modern results and errors to a legacy revision.

Members that are newer than the revision are removed or replaced by older ones; nothing is added.
Source: the schema and the changelog of each revision.
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

_RESOURCE_METHODS: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
_RESERVED_PREFIX: Final = "io.modelcontextprotocol/"
_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_WITH_TITLES: Final = frozenset({"title", "outputSchema", "_meta"})
_WITH_ICONS: Final = frozenset({"icons", "description", "websiteUrl"})

Members = dict[str, Any]


def legacy_result(revision: Revision, method: str, result: Mapping[str, Any]) -> Members:
    """Return the result of `method` as `revision` defines it. `result` is not changed."""
    members = {name: value for name, value in result.items() if name not in _MODERN_MEMBERS}
    if "_meta" in members:
        meta = {key: value for key, value in members.pop("_meta").items() if not key.startswith(_RESERVED_PREFIX)}
        members |= {"_meta": meta} if meta else {}
    change = _CONVERSIONS.get(method)
    return members if change is None else change(revision, members)


def initialize_result(
    revision: Revision, capabilities: Mapping[str, Any], server_info: Mapping[str, Any], instructions: str | None
) -> Members:
    """Return the result of `initialize`.

    It has no extensions, because only the modern era has them.
    """
    hidden = (frozenset() if revision.titles else {"title"}) | (frozenset() if revision.icons else _WITH_ICONS)
    result: Members = {
        "protocolVersion": revision.name,
        "capabilities": {name: value for name, value in capabilities.items() if name != "extensions"},
        "serverInfo": {name: value for name, value in server_info.items() if name not in hidden},
    }
    return result if instructions is None else {**result, "instructions": instructions}


def legacy_rejection(method: str, rejection: Rejection) -> Rejection:
    """Return the error of `method` with the code and status of the legacy era.

    A status of 404 would mean that the session has ended.
    """
    if rejection.code == METHOD_NOT_FOUND:
        return replace(rejection, status=200)
    if rejection.code == MISSING_CLIENT_CAPABILITY:
        return replace(rejection, code=INVALID_REQUEST, status=200)
    if method in _RESOURCE_METHODS and rejection.code == INVALID_PARAMS and rejection.data is not None:
        return replace(rejection, code=RESOURCE_NOT_FOUND)
    return rejection


def _call_result(revision: Revision, result: Members) -> Members:
    structured = result.get("structuredContent")
    if not revision.titles or not isinstance(structured, dict):
        # The content repeats it as JSON text.
        result.pop("structuredContent", None)
    return {**result, "content": [content_block(revision, each) for each in result["content"]]}


def _prompt_result(revision: Revision, result: Members) -> Members:
    messages = [{**message, "content": content_block(revision, message["content"])} for message in result["messages"]]
    return {**result, "messages": messages}


def _read_result(revision: Revision, result: Members) -> Members:
    if revision.titles:
        return result
    return {**result, "contents": [_without(contents, {"_meta"}) for contents in result["contents"]]}


def _list_result(name: str) -> Callable[[Revision, Members], Members]:
    return lambda revision, result: {**result, name: [_list_item(revision, item) for item in result[name]]}


def _list_item(revision: Revision, item: Mapping[str, Any]) -> Members:
    """Convert a tool, resource, template or prompt."""
    hidden = frozenset() if revision.titles else _WITH_TITLES
    listed = _without(item, hidden if revision.icons else hidden | {"icons"})
    schema = listed.get("outputSchema")
    if schema is not None and schema.get("type") != "object":
        del listed["outputSchema"]
    if isinstance(arguments := listed.get("arguments"), list):
        listed["arguments"] = [_without(argument, hidden) for argument in arguments]
    return _with_old_annotations(revision, listed)


def content_block(revision: Revision, block: Mapping[str, Any]) -> Members:
    """Convert a content block to `revision`."""
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


_CONVERSIONS: Final[Mapping[str, Callable[[Revision, Members], Members]]] = MappingProxyType(
    {
        "tools/list": _list_result("tools"),
        "tools/call": _call_result,
        "resources/list": _list_result("resources"),
        "resources/templates/list": _list_result("resourceTemplates"),
        "resources/read": _read_result,
        "prompts/list": _list_result("prompts"),
        "prompts/get": _prompt_result,
    }
)
