"""The Celery tasks: thin shells around the runner."""

from typing import Any
from uuid import UUID

from celery import Task, shared_task

from mcp_app.execution import runner
from mcp_app.lifecycle.publishing import RUN_TASK


@shared_task(
    bind=True,
    name=RUN_TASK,
    Request="mcp_app.execution.messages:ToolRequest",
    acks_late=False,
    max_retries=0,
    time_limit=0,
    soft_time_limit=0,
    track_started=False,
)
def run(self: Task, request_id: str) -> Any:
    """Run the tool of one request. The message carries the row's id only; the row has everything else.

    Zeros are no limit, nor the site's own (`CELERY_TASK_TIME_LIMIT`): deadlines go through the ladder. That a call has
    begun is in its row: Celery would say so of every message, for ever of one that came twice and does nothing.
    """
    return runner.run(self, UUID(request_id))
