"""Notifications to a session outside of any request: lists and watched resources that have changed.

The session sends them. Source: 2025-11-25 server/tools, server/prompts and server/resources "List
Changed Notification", "Subscriptions".
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp_app.catalogue import audiences, changes
from mcp_app.protocol.jsonrpc import notification
from mcp_app.transport.serving.capabilities import server_capabilities

_LISTS: Final = (changes.TOOLS, changes.PROMPTS, changes.RESOURCES)

Notices = dict[str, dict[str, Any]]
"""The notification of a change, by its subject."""


def list_notices(endpoint: str) -> Notices:
    """Return the notifications that every session gets about an endpoint's lists."""
    delivered = server_capabilities(endpoint)
    messages = {kind: notification(f"notifications/{kind}/list_changed", {}) for kind in _LISTS if kind in delivered}
    return {subject: messages[kind] for kind in messages for subject in audiences.subjects(kind)}


def subjects_of_resources(uris: Iterable[str]) -> dict[str, str]:
    """Return the URIs of the resources that a session watches, by their subjects."""
    return {changes.resource_subject(uri): uri for uri in uris}


def resource_notices(watched: Mapping[str, str]) -> Notices:
    return {subject: notification("notifications/resources/updated", {"uri": uri}) for subject, uri in watched.items()}


def distinct(notices: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each notification once. Several subjects may belong to one list."""
    messages: list[dict[str, Any]] = []
    for each in notices:
        if each not in messages:
            messages.append(each)
    return messages
