"""`notifications/tasks` on one subscription: the whole of each watched task, first as it is and then when it changed.

Refuses progress and log notifications: a task's progress is its `statusMessage`. Source: ext-tasks
specification/draft/tasks "Task Status Notifications".
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import task_handles
from mcp_app.protocol import tasks
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, fail
from mcp_app.protocol.jsonrpc import encode
from mcp_app.transport.exchange import Exchange


class TaskNotices:
    """The tasks that a subscription watches, by their rows, and what it has told of each."""

    def __init__(self, exchange: Exchange, watched: Mapping[UUID, str] | None = None) -> None:
        self._server = exchange.server
        self._server_info = exchange.server_info()
        self._subscription = exchange.route.request_id
        self._watched = dict(watched or {})
        self._told: dict[UUID, bytes] = {}
        """Digests: a result may be large, and a stream open for long."""

    @property
    def task_ids(self) -> list[str]:
        return list(self._watched.values())

    @property
    def subjects(self) -> Collection[UUID]:
        return self._watched.keys()

    async def of(self, changed: Collection[Any]) -> list[dict[str, Any]]:
        """What is to be said when these subjects have changed; nothing of a task that looks as it did, or expired."""
        moved = [row for row in self._watched if row in changed]
        if not moved:
            return []
        found = await self._server.rows.run(task_handles.read, moved)
        said = []
        for row in (row for row in moved if row in found):
            shown = tasks.detailed(found[row], self._server_info)
            look = hashlib.sha256(encode({**shown, "lastUpdatedAt": None})).digest()
            if self._told.get(row) != look:
                self._told[row] = look
                said.append(tasks.status_notification(shown, self._subscription))
        return said


async def watched_tasks(exchange: Exchange) -> TaskNotices | Rejection:
    """The tasks that a `subscriptions/listen` names and its caller has; the others are left out as unknown ones."""
    task_ids = tasks.read_watched_tasks(exchange.route)
    if isinstance(task_ids, Rejection):
        return task_ids
    if len(task_ids) > settings.MAX_TASK_SUBSCRIPTIONS:
        message = f"One subscription may watch at most {settings.MAX_TASK_SUBSCRIPTIONS} tasks; open another."
        return fail(INVALID_PARAMS, message, exchange.route.request_id)
    if not task_ids:
        return TaskNotices(exchange)
    found = await exchange.server.rows.run(task_handles.find_all, task_ids, exchange.principal)
    rows = {str(row.task_handle): row.pk for row in found}
    return TaskNotices(exchange, {rows[task_id]: task_id for task_id in task_ids if task_id in rows})
