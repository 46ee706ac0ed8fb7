"""`notifications/tasks` on one subscription: at the beginning, and after each change.

There are no progress and log notifications: a task's progress is its `statusMessage`. Source:
ext-tasks specification/draft/tasks "Task Status Notifications".
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
from mcp_app.transport.serving.exchange import Exchange


class TaskNotices:
    """The tasks that a subscription watches, and the state of each that was sent last."""

    def __init__(self, exchange: Exchange, watched: Mapping[UUID, str] | None = None) -> None:
        self._server = exchange.server
        self._server_info = exchange.server_info()
        self._subscription = exchange.route.request_id
        self._watched = dict(watched or {})
        self._sent_digests: dict[UUID, bytes] = {}
        """Digests instead of states, because a result may be large and a stream may be open for
        long.
        """

    @property
    def task_ids(self) -> list[str]:
        return list(self._watched.values())

    @property
    def subjects(self) -> Collection[UUID]:
        return self._watched.keys()

    async def notifications_for(self, changed: Collection[Any]) -> list[dict[str, Any]]:
        """Return the notifications to send for these changed subjects.

        There is none for a task that has expired or whose state was sent before.
        """
        rows = [row for row in self._watched if row in changed]
        if not rows:
            return []
        found = await self._server.rows.run(task_handles.read, rows)
        notifications = []
        for row in (row for row in rows if row in found):
            detailed = tasks.detailed_task(found[row], self._server_info)
            digest = hashlib.sha256(encode({**detailed, "lastUpdatedAt": None})).digest()
            if self._sent_digests.get(row) != digest:
                self._sent_digests[row] = digest
                notifications.append(tasks.status_notification(detailed, self._subscription))
        return notifications


async def watched_tasks(exchange: Exchange) -> TaskNotices | Rejection:
    """Return the tasks that a `subscriptions/listen` names and its caller owns.

    Others are left out.
    """
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
