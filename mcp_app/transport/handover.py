"""From a call that is waited for to a task: whether, when, and the response that says so.

The server alone decides, by the tool's `TaskMode`; the client has declared the tasks extension on this request or gets
none. Refuses to leave the row unstored when its handle is sent. Source: ext-tasks specification/draft/tasks
"Task Creation".
"""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from mcp_app import databases
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.conf import settings
from mcp_app.lifecycle import task_handles
from mcp_app.models import Request
from mcp_app.protocol import tasks
from mcp_app.protocol.capabilities import declared
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.tasks import Task
from mcp_app.states import TaskMode
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.threads import RETRY_SECONDS

logger = logging.getLogger(__name__)


def required_capabilities(tool: RegisteredTool, *, makes_tasks: bool) -> Mapping[str, Any]:
    """What a client must declare to call a tool: a ClientCapabilities object.

    `makes_tasks`: whether its era has tasks; where it has none, a call that should become one is waited for.
    """
    required = tool.requires or {}
    if not makes_tasks or tool.task != TaskMode.ALWAYS:
        return required
    return {**required, "extensions": {**required.get("extensions", {}), **tasks.CAPABILITY["extensions"]}}


class Handover:
    """What is to become of one call that its client waits for since `began_at` (`time.monotonic`)."""

    def __init__(self, exchange: Exchange, request: Request, began_at: float) -> None:
        self._exchange = exchange
        self._request = request
        self._due_at = math.inf
        if request.task_handle is not None:
            self._due_at = -math.inf
        elif not exchange.makes_tasks or (tool := registered_tools().get(request.tool)) is None:
            return
        elif _may_become_task(tool, exchange.route):
            self._due_at = began_at + (settings.TASK_AFTER if tool.task_after is None else tool.task_after)

    @property
    def wait(self) -> float:
        """Seconds until it becomes a task; infinite when it does not."""
        return max(0.0, self._due_at - time.monotonic())

    async def take(self) -> Task | None:
        """Make it a task; None where it is to be waited for all the same, be it until the database is back."""
        self._due_at = math.inf
        try:
            return await self._exchange.server.rows.run(_task_of, self._request)
        except databases.AWAY as error:
            logger.error("request %s cannot become a task yet: %s", self._request.pk, str(error).strip())
            self._due_at = time.monotonic() + RETRY_SECONDS
            return None


def _may_become_task(tool: RegisteredTool, route: Route) -> bool:
    return tool.task == TaskMode.WHEN_SLOW and declared(tasks.CAPABILITY, route.metadata.client_capabilities)


def _task_of(request: Request) -> Task | None:
    row = task_handles.hand_over(request.pk)
    return None if row is None else task_handles.shown(row)


def created(task: Task, exchange: Exchange) -> dict[str, Any]:
    """The response to the call: a CreateTaskResult."""
    return tasks.created(task, exchange.server_info())
