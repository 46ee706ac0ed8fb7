"""What a session is told outside any request: that lists, and the resources it watches, have changed.

Refuses to know how it is told. Source: 2025-11-25 server/tools, server/prompts and server/resources "List Changed
Notification", "Subscriptions".
"""

from collections.abc import Iterable
from typing import Any, Final

from mcp_app.catalogue import changes
from mcp_app.protocol.jsonrpc import notification
from mcp_app.transport.capabilities import server_capabilities

_LISTS: Final = (changes.TOOLS, changes.PROMPTS, changes.RESOURCES)

Notices = dict[str, dict[str, Any]]
"""What to say of a change, by its subject."""


def lists() -> list[str]:
    """The subjects whose changes every session is told."""
    delivered = server_capabilities()
    return [kind for kind in _LISTS if kind in delivered]


def of_lists() -> Notices:
    return {kind: notification(f"notifications/{kind}/list_changed", {}) for kind in lists()}


def of_resources(uris: Iterable[str]) -> Notices:
    return {
        changes.resource_subject(uri): notification("notifications/resources/updated", {"uri": uri}) for uri in uris
    }
