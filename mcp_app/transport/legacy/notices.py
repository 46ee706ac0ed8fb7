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


def lists() -> list[str]:
    """The subjects whose changes every session is told."""
    delivered = server_capabilities()
    return [kind for kind in _LISTS if kind in delivered]


def notices(uris: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What to say of a change, by its subject, to a session that watches these resources."""
    told = {kind: notification(f"notifications/{kind}/list_changed", {}) for kind in lists()}
    for uri in uris:
        told[changes.resource_subject(uri)] = notification("notifications/resources/updated", {"uri": uri})
    return told
