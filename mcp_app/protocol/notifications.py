"""Build the notifications that the server sends, as dictionaries for `sse.event`.

A notification belongs to a request's own stream or to one subscription. Those of a subscription
carry its id, in the JSON type that the client used. Source: 2026-07-28 basic/patterns/progress,
basic/patterns/subscriptions, server/utilities/logging.
"""

from collections.abc import Mapping
from typing import Any

from mcp_app.protocol.errors import RequestId
from mcp_app.protocol.jsonrpc import notification
from mcp_app.protocol.metadata import SUBSCRIPTION_ID


def progress(token: RequestId, done: float, total: float | None = None, message: str | None = None) -> dict[str, Any]:
    """Return `notifications/progress`. The caller checks that `done` is finite and increases."""
    params: dict[str, Any] = {"progressToken": token, "progress": done}
    if total is not None:
        params["total"] = total
    if message is not None:
        params["message"] = message
    return notification("notifications/progress", params)


def log_message(level: str, data: Any, logger: str | None = None) -> dict[str, Any]:
    """Return `notifications/message`.

    Send it only on the stream of a request with a `logLevel`, and only at or above that level.
    """
    params: dict[str, Any] = {"level": level, "data": data}
    if logger is not None:
        params["logger"] = logger
    return notification("notifications/message", params)


def acknowledged(subscription_id: RequestId, granted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first message of a subscription.

    `granted` is the part of the filter that is served, in wire names.
    """
    return _subscription_notification("subscriptions/acknowledged", subscription_id, {"notifications": dict(granted)})


def list_changed(kind: str, subscription_id: RequestId) -> dict[str, Any]:
    """Return the notification that the list of `kind` (tools, prompts, resources) has changed."""
    return _subscription_notification(f"{kind}/list_changed", subscription_id, {})


def resource_updated(uri: str, subscription_id: RequestId) -> dict[str, Any]:
    """Return the notification that the resource at `uri` has changed."""
    return _subscription_notification("resources/updated", subscription_id, {"uri": uri})


def listen_cancelled(subscription_id: RequestId) -> dict[str, Any]:
    """Return the notification that ends a subscription. It is sent after the result.

    It is needed on a channel that several requests share (basic/patterns/cancellation).
    """
    return _subscription_notification("cancelled", subscription_id, {"requestId": subscription_id})


def _subscription_notification(name: str, subscription_id: RequestId, params: Mapping[str, Any]) -> dict[str, Any]:
    return notification(f"notifications/{name}", {"_meta": {SUBSCRIPTION_ID: subscription_id}, **params})
