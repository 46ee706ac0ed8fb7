"""Build the results of the methods, as dictionaries for `jsonrpc.response`.

Every modern result states its type (`resultType`) and its server (`serverInfo`). Members that may
be null keep their null. Source: 2026-07-28 basic/index "ResultType", server/discover, server/tools,
caching.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcp_app.protocol.errors import RequestId
from mcp_app.protocol.metadata import SERVER_INFO, SUBSCRIPTION_ID
from mcp_app.protocol.revisions import SUPPORTED_VERSIONS

CacheScope = Literal["public", "private"]
"""Caches may share a `public` result among callers. Use `private` if the result depends on the
caller.
"""


def complete(payload: Mapping[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finished result: `payload` with `resultType` and `serverInfo`."""
    return _result("complete", payload, server_info)


def input_required(
    input_requests: Mapping[str, Any], *, request_state: str, server_info: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an InputRequiredResult.

    It is valid for `tools/call`, `prompts/get` and `resources/read` only (basic/patterns/mrtr).
    """
    payload = {"inputRequests": dict(input_requests), "requestState": request_state}
    return _result("input_required", payload, server_info)


def task(payload: Mapping[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CreateTaskResult.

    It is valid for `tools/call` only, and for clients that declared the tasks extension.
    """
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
    """Return the result of `server/discover`. `capabilities` is a ServerCapabilities object."""
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
    """Return one page of a list, to be passed to `complete`. `member` names the list in the result.

    The last page has `next_cursor=None`.
    """
    payload: dict[str, Any] = {member: list(items), "ttlMs": ttl_ms, "cacheScope": cache_scope}
    return payload if next_cursor is None else {**payload, "nextCursor": next_cursor}


def tool_error(text: str) -> dict[str, Any]:
    """Return a CallToolResult with an error message for the model, to be passed to `complete`."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def listen_closed(subscription_id: RequestId, server_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a `subscriptions/listen` that the server ends ("Graceful Closure")."""
    return complete({"_meta": {SUBSCRIPTION_ID: subscription_id}}, server_info)
