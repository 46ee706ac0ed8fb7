"""The Celery tasks: thin shells around the runner."""

from typing import Any, Final
from uuid import UUID

from celery import Task, shared_task

from mcp_app.execution import batches, runner
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK, RUN_TASK

_OPTIONS: Final[dict[str, Any]] = {
    "bind": True,
    "acks_late": False,
    "max_retries": 0,
    "time_limit": 0,
    "soft_time_limit": 0,
    "track_started": False,
}
"""Of both. Zeros are no limit, nor the site's own (`CELERY_TASK_TIME_LIMIT`): deadlines go through the ladder. That a
call has begun is in its row: Celery would say so of every message, for ever of one that came twice and does nothing."""


@shared_task(name=RUN_TASK, Request="mcp_app.execution.messages:ToolRequest", **_OPTIONS)
def run(self: Task, request_id: str) -> Any:
    """Run the tool of one request. The message carries the row's id only; the row has everything else."""
    return runner.run(self, UUID(request_id))


@shared_task(name=RUN_BATCH_TASK, Request="mcp_app.execution.messages:BatchRequest", ignore_result=True, **_OPTIONS)
def run_batch(self: Task, *request_ids: str) -> None:
    """Run the tools of several requests, each as its own task `run` is."""
    batches.run_all(self, request_ids)
