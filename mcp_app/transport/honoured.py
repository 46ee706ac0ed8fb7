"""Which part of a `subscriptions/listen` filter is served, and what is said of each change.

Leaves out what is not advertised, and resources that the caller may not read: they are as unknown ones. Whose token was
not given for one of them is challenged with the scopes of all: an acknowledgement could not say what is missing.
Source: 2026-07-28 basic/patterns/subscriptions "Acknowledgment".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import changes, reading
from mcp_app.catalogue.errors import InsufficientScope
from mcp_app.conf import settings
from mcp_app.protocol import notifications
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, fail
from mcp_app.protocol.requests import Listen
from mcp_app.protocol.uris import is_uri
from mcp_app.transport import author_code
from mcp_app.transport.capabilities import server_capabilities
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.list_notices import Notices, list_notices
from mcp_app.transport.task_notices import TaskNotices, watched_tasks


@dataclass(slots=True)
class Honoured:
    """The part of a filter that is served."""

    tasks: TaskNotices
    filter: dict[str, Any] = field(default_factory=dict)
    """As it is acknowledged."""
    notices: Notices = field(default_factory=dict)
    uris: Mapping[str, str] = field(default_factory=dict)
    """The resources among the subjects."""


async def honour(exchange: Exchange, chosen: Listen) -> Honoured | Rejection:
    """Decide for one subscription. Resources are looked up by authors' code, in a thread."""
    notices = await watched_tasks(exchange)
    if isinstance(notices, Rejection):
        return notices
    honoured, delivered = Honoured(notices), server_capabilities(exchange.principal.endpoint)
    if notices.task_ids:
        honoured.filter["taskIds"] = notices.task_ids
    lists = {
        changes.TOOLS: chosen.tools_list_changed,
        changes.PROMPTS: chosen.prompts_list_changed,
        changes.RESOURCES: chosen.resources_list_changed,
    }
    kinds = tuple(kind for kind, wanted in lists.items() if wanted and kind in delivered)
    honoured.filter |= {f"{kind}ListChanged": True for kind in kinds}
    honoured.notices = exchange.server.once(list_notices, kinds)
    if not chosen.resource_subscriptions or changes.RESOURCES not in delivered:
        return honoured
    uris = await _readable(exchange, dict.fromkeys(chosen.resource_subscriptions))
    if isinstance(uris, Rejection):
        return uris
    if uris:
        honoured.filter["resourceSubscriptions"] = uris
    honoured.uris = {changes.resource_subject(uri): uri for uri in uris}
    of_resources = {subject: partial(notifications.resource_updated, uri) for subject, uri in honoured.uris.items()}
    honoured.notices = {**honoured.notices, **of_resources}
    return honoured


async def _readable(exchange: Exchange, uris: dict[str, None]) -> list[str] | Rejection:
    if len(uris) > settings.MAX_RESOURCE_SUBSCRIPTIONS:
        message = f"One subscription may watch at most {settings.MAX_RESOURCE_SUBSCRIPTIONS} resources; open another."
        return fail(INVALID_PARAMS, message, exchange.route.request_id)
    return await author_code.run(exchange, partial(_only_readable, uris, exchange.principal))


def _only_readable(uris: Iterable[str], principal: Principal) -> list[str]:
    """Raises `InsufficientScope`."""
    found = {uri: reading.find(uri, principal) for uri in uris if is_uri(uri)}
    readable = {uri: each.resource.access for uri, each in found.items() if each is not None}
    if missing := {scope: None for access in readable.values() for scope in access.missing_scopes(principal)}:
        raise InsufficientScope(list(missing), [scope for access in readable.values() for scope in access.scopes])
    return list(readable)
