"""The results of the methods served, as the dictionaries that `jsonrpc.response` sends.

Every modern result says what it is (`resultType`) and who made it (`serverInfo`). Values that may be null
keep their null: nothing here drops members by value. Source: 2026-07-28 basic/index "ResultType",
server/discover, server/tools, caching.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcp_app.protocol.errors import RequestId
from mcp_app.protocol.metadata import SERVER_INFO, SUBSCRIPTION_ID
from mcp_app.protocol.revisions import SUPPORTED_VERSIONS

CacheScope = Literal["public", "private"]
"""`public` may be shared across callers, so `private` wherever the caller matters."""


def complete(payload: Mapping[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    """A finished result: `payload` with `resultType` and the server's Implementation in its `_meta`."""
    return _result("complete", payload, server_info)


def input_required(
    input_requests: Mapping[str, Any], *, request_state: str, server_info: Mapping[str, Any]
) -> dict[str, Any]:
    """An InputRequiredResult: only for `tools/call`, `prompts/get`, `resources/read` (basic/patterns/mrtr)."""
    payload = {"inputRequests": dict(input_requests), "requestState": request_state}
    return _result("input_required", payload, server_info)


def task(payload: Mapping[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    """A CreateTaskResult (the tasks extension): only for `tools/call`, and clients that declared the extension."""
    return _result("task", payload, server_info)


def _result(kind: str, payload: Mapping[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    meta = {**(payload.get("_meta") or {}), SERVER_INFO: dict(server_info)}
    return {**payload, "resultType": kind, "_meta": meta}


def discover(
    *,
    capabilities: Mapping[str, Any],
    instructions: str | None,
    server_info: Mapping[str, Any],
    ttl_ms: int,
    cache_scope: CacheScope,
) -> dict[str, Any]:
    """`server/discover`. `capabilities` is a ServerCapabilities object that says only what is delivered."""
    payload: dict[str, Any] = {
        "supportedVersions": list(SUPPORTED_VERSIONS),
        "capabilities": dict(capabilities),
        "ttlMs": ttl_ms,
        "cacheScope": cache_scope,
    }
    if instructions is not None:
        payload["instructions"] = instructions
    return complete(payload, server_info)


def list_page(
    member: str,
    items: Sequence[Mapping[str, Any]],
    *,
    next_cursor: str | None,
    ttl_ms: int,
    cache_scope: CacheScope,
) -> dict[str, Any]:
    """One page of a list: its objects in their final order, as `member`; to be sent through `complete`.

    `next_cursor` None ends the list.
    """
    payload: dict[str, Any] = {member: list(items), "ttlMs": ttl_ms, "cacheScope": cache_scope}
    return payload if next_cursor is None else {**payload, "nextCursor": next_cursor}


def call_tool(stored: Mapping[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    """`tools/call`: a stored CallToolResult object, passed through."""
    return complete(stored, server_info)


def tool_error(text: str) -> dict[str, Any]:
    """A CallToolResult that tells the model what went wrong; send it through `call_tool`."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def listen_closed(subscription_id: RequestId, server_info: Mapping[str, Any]) -> dict[str, Any]:
    """The end of a `subscriptions/listen` that the server closes ("Graceful Closure")."""
    return complete({"_meta": {SUBSCRIPTION_ID: subscription_id}}, server_info)
