"""The notifications the server sends, as the dictionaries that `sse.event` writes.

A message belongs to a request's own stream or to one subscription; those of a subscription carry its id, with
the JSON type the client gave it. Source: 2026-07-28 basic/patterns/progress, basic/patterns/subscriptions,
server/utilities/logging.
"""

from collections.abc import Mapping
from typing import Any

from mcp_app.protocol.errors import RequestId
from mcp_app.protocol.jsonrpc import notification
from mcp_app.protocol.metadata import SUBSCRIPTION_ID


def progress(token: RequestId, done: float, total: float | None = None, message: str | None = None) -> dict[str, Any]:
    """`notifications/progress`, the token with its type. The caller sees that `done` is finite and grows."""
    params: dict[str, Any] = {"progressToken": token, "progress": done}
    if total is not None:
        params["total"] = total
    if message is not None:
        params["message"] = message
    return notification("notifications/progress", params)


def log_message(level: str, data: Any, logger: str | None = None) -> dict[str, Any]:
    """`notifications/message`: only on the stream of a request with `logLevel`, at or above that level."""
    params: dict[str, Any] = {"level": level, "data": data}
    if logger is not None:
        params["logger"] = logger
    return notification("notifications/message", params)


def acknowledged(subscription_id: RequestId, honoured: Mapping[str, Any]) -> dict[str, Any]:
    """The first message of a subscription. `honoured` is the part of the filter that is served, in wire
    names."""
    return _subscribed("subscriptions/acknowledged", subscription_id, {"notifications": dict(honoured)})


def list_changed(kind: str, subscription_id: RequestId) -> dict[str, Any]:
    """The list of `kind` (tools, prompts, resources) has changed."""
    return _subscribed(f"{kind}/list_changed", subscription_id, {})


def resource_updated(uri: str, subscription_id: RequestId) -> dict[str, Any]:
    """What is read at `uri` has changed."""
    return _subscribed("resources/updated", subscription_id, {"uri": uri})


def listen_cancelled(subscription_id: RequestId) -> dict[str, Any]:
    """On a channel that cannot be closed for one request: the server ends the subscription, whose result it has sent
    (basic/patterns/cancellation)."""
    return _subscribed("cancelled", subscription_id, {"requestId": subscription_id})


def _subscribed(name: str, subscription_id: RequestId, params: Mapping[str, Any]) -> dict[str, Any]:
    return notification(f"notifications/{name}", {"_meta": {SUBSCRIPTION_ID: subscription_id}, **params})
