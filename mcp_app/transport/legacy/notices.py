"""What a session is told outside any request: that lists, and the resources it watches, have changed.

Refuses to know how it is told. Source: 2025-11-25 server/tools, server/prompts and server/resources "List Changed
Notification", "Subscriptions".
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp_app.catalogue import audiences, changes
from mcp_app.protocol.jsonrpc import notification
from mcp_app.transport.capabilities import server_capabilities

_LISTS: Final = (changes.TOOLS, changes.PROMPTS, changes.RESOURCES)

Notices = dict[str, dict[str, Any]]
"""What to say of a change, by its subject."""


def lists() -> list[str]:
    """The subjects of lists that every session watches."""
    return list(of_lists())


def of_lists() -> Notices:
    delivered = server_capabilities()
    said = {kind: notification(f"notifications/{kind}/list_changed", {}) for kind in _LISTS if kind in delivered}
    return {subject: said[kind] for kind in said for subject in audiences.subjects(kind)}


def resources(uris: Iterable[str]) -> dict[str, str]:
    """The resources that a session watches, by subject."""
    return {changes.resource_subject(uri): uri for uri in uris}


def of_resources(watched: Mapping[str, str]) -> Notices:
    return {subject: notification("notifications/resources/updated", {"uri": uri}) for subject, uri in watched.items()}


def distinct(notices: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once: changes of one list may be of several subjects."""
    said: list[dict[str, Any]] = []
    for each in notices:
        if each not in said:
            said.append(each)
    return said
