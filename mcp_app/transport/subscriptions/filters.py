"""Decide which part of a filter is served, and which changes its caller may see.

The granted filter omits lists that are not advertised, and resources that the caller may not read,
just as it omits resources that do not exist. If the caller's token lacks scopes for a resource, the
subscription is rejected with a challenge that names the scopes of all its resources, because an
acknowledgement could not name them.

Access is checked again whenever something changes, because permissions come and go. Lists are
checked once for all streams of a caller that change at the same time. Resources are checked by
authors' code, in its threads. If that code fails, no notification is sent, and the log has the
reason. Source: 2026-07-28 basic/patterns/subscriptions "Acknowledgment".
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import audiences, changes, reads
from mcp_app.catalogue.errors import InsufficientScope
from mcp_app.conf import settings
from mcp_app.lifecycle import redaction
from mcp_app.protocol import notifications
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, RequestId, fail
from mcp_app.protocol.formats import is_uri
from mcp_app.protocol.requests import Listen
from mcp_app.transport.process.author_threads import EscapedError, TookTooLongError
from mcp_app.transport.reads import author_code
from mcp_app.transport.server import Server
from mcp_app.transport.serving.capabilities import server_capabilities
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.subscriptions.task_notices import TaskNotices, watched_tasks

logger = logging.getLogger(__name__)
Notices = Mapping[str, Callable[[RequestId], dict[str, Any]]]
"""Builds the notification for a subscription id, by the subject that changed."""


@dataclass(slots=True)
class GrantedFilter:
    """The part of a filter that is served."""

    tasks: TaskNotices
    filter: dict[str, Any] = field(default_factory=dict)
    """The filter as it is acknowledged."""
    notices: Notices = field(default_factory=dict)
    uris: Mapping[str, str] = field(default_factory=dict)
    """The URIs of the subjects that are resources."""


async def grant_filter(exchange: Exchange, chosen: Listen) -> GrantedFilter | Rejection:
    """Decide which part of a filter to serve. Authors' code looks up the resources, in a thread."""
    notices = await watched_tasks(exchange)
    if isinstance(notices, Rejection):
        return notices
    granted, delivered = GrantedFilter(notices), server_capabilities(exchange.principal.endpoint)
    if notices.task_ids:
        granted.filter["taskIds"] = notices.task_ids
    lists = {
        changes.TOOLS: chosen.tools_list_changed,
        changes.PROMPTS: chosen.prompts_list_changed,
        changes.RESOURCES: chosen.resources_list_changed,
    }
    kinds = tuple(kind for kind, wanted in lists.items() if wanted and kind in delivered)
    granted.filter |= {f"{kind}ListChanged": True for kind in kinds}
    granted.notices = exchange.server.once(_list_notices, kinds)
    if not chosen.resource_subscriptions or changes.RESOURCES not in delivered:
        return granted
    uris = await _find_readable(exchange, dict.fromkeys(chosen.resource_subscriptions))
    if isinstance(uris, Rejection):
        return uris
    if uris:
        granted.filter["resourceSubscriptions"] = uris
    granted.uris = {changes.resource_subject(uri): uri for uri in uris}
    of_resources = {subject: partial(notifications.resource_updated, uri) for subject, uri in granted.uris.items()}
    granted.notices = {**granted.notices, **of_resources}
    return granted


def _list_notices(kinds: tuple[str, ...]) -> Notices:
    """Return the notices of lists. All streams that listen to the same lists share one mapping."""
    notices = {kind: partial(notifications.list_changed, kind) for kind in kinds}
    return MappingProxyType({subject: notices[kind] for kind in kinds for subject in audiences.subjects(kind)})


async def _find_readable(exchange: Exchange, uris: dict[str, None]) -> list[str] | Rejection:
    if len(uris) > settings.MAX_RESOURCE_SUBSCRIPTIONS:
        message = f"One subscription may watch at most {settings.MAX_RESOURCE_SUBSCRIPTIONS} resources; open another."
        return fail(INVALID_PARAMS, message, exchange.route.request_id)
    return await author_code.run(exchange, partial(_readable_uris, uris, exchange.principal))


def _readable_uris(uris: Iterable[str], principal: Principal) -> list[str]:
    """Raises `InsufficientScope`."""
    found = {uri: reads.find(uri, principal) for uri in uris if is_uri(uri)}
    readable = {uri: each.resource.access for uri, each in found.items() if each is not None}
    if missing := {scope: None for access in readable.values() for scope in access.missing_scopes(principal)}:
        raise InsufficientScope(list(missing), [scope for access in readable.values() for scope in access.scopes])
    return list(readable)


async def visible_changes(
    server: Server, principal: Principal, changed: Collection[Any], uris: Mapping[Any, str]
) -> set[Any]:
    """Return the `changed` subjects that `principal` may see.

    The subjects are lists, or resources if they are in `uris`. Raises `django.db.Error`.
    """
    resources = {subject: uris[subject] for subject in changed if subject in uris}
    lists = frozenset(subject for subject in changed if subject not in uris)
    visible: set[Any] = set(await server.list_rights.get((principal, lists))) if lists else set()
    if resources:
        try:
            visible |= await server.authors.run(_readable_subjects, resources, principal)
        except (TookTooLongError, EscapedError):
            logger.exception(
                "it was not determined in time who may receive changed resources; no notification is sent for them"
            )
    return visible


def _readable_subjects(resources: Mapping[Any, str], principal: Principal) -> set[Any]:
    return {subject for subject, uri in resources.items() if _is_readable(uri, principal)}


def _is_readable(uri: str, principal: Principal) -> bool:
    try:
        return reads.find(uri, principal) is not None
    except Exception as error:
        logger.error(
            "it could not be determined whether a caller may read a changed resource; the caller is not notified",
            exc_info=redaction.error_without_text(error),
        )
        return False
