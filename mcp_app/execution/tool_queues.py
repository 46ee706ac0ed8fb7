"""Decide which queues a worker consumes for tools.

`manage.py mcp worker` and `celery worker -Q` name the queues. A worker that was started without
`-Q` consumes the tools' queues beside the site's own, unless `MCP["WORKERS_TAKE_TOOLS"]` is `False`
or tools cannot run in its pool.
"""
# mypy: allow-untyped-calls
# Celery ships no types

import logging
from collections.abc import Mapping
from typing import Any

from mcp_app.catalogue import tool_rows
from mcp_app.celery_adapter.pools import can_run_tools
from mcp_app.conf import settings

logger = logging.getLogger(__name__)


class ToolQueues:
    """The queues of a worker that takes calls of every tool, also of new ones."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._known = set(worker.app.amqp.queues.consume_from) | excluded(worker)

    def consume_new(self) -> None:
        """Let the worker consume queues that are new since the last check.

        On the ladder's thread.
        """
        for queue in sorted(tool_rows.queues() - self._known):
            self._worker.consumer.call_soon(self._consume, queue)
            self._known.add(queue)

    def _consume(self, queue: str) -> None:
        """Consume a queue, in the worker's event loop.

        Celery remembers the queue's name, so after an error the next connection consumes it.
        """
        try:
            self._worker.consumer.add_task_queue(queue)
        except Exception:
            logger.exception("queue %s could not be consumed yet; it will be after the next reconnect", queue)
        else:
            logger.warning("queue %s is new and is consumed from now on", queue)


def note_options(worker: Any, options: Mapping[str, Any]) -> None:
    """Keep a worker's command-line options about queues (Celery's signal `celeryd_init`)."""
    worker.names_queues = bool(options.get("queues"))
    worker.excludes_queues = options.get("exclude_queues") or ()


def excluded(worker: Any) -> set[str]:
    """Return the queues that a worker must not consume (`-X`)."""
    queues = getattr(worker, "excludes_queues", ())
    return set(queues.split(",") if isinstance(queues, str) else queues)


def choose(worker: Any) -> None:
    """Add the tools' queues to a worker that was started without `-Q`, before it connects.

    If tools cannot run in its pool, their queues are left out instead, so that it serves the site's
    own tasks.
    """
    if _names_queues(worker):
        return
    queues = worker.app.amqp.queues
    for_tools = tool_rows.declared_queues() - excluded(worker) - {worker.app.conf.task_default_queue}
    if not can_run_tools(worker.pool_cls):
        queues.deselect(for_tools & set(queues.consume_from))
    elif settings.WORKERS_TAKE_TOOLS:
        for queue in sorted(for_tools - set(queues.consume_from)):
            try:
                queues.select_add(queues[queue])
            except KeyError:
                # CELERY_TASK_CREATE_MISSING_QUEUES forbids it; the check E018 reports that.
                continue
        worker.follows_tool_queues = True


def warn_of_pool(worker: Any) -> None:
    """Log that a worker without `-Q` takes no tools because of its pool."""
    if not _names_queues(worker) and settings.WORKERS_TAKE_TOOLS and not can_run_tools(worker.pool_cls):
        logger.warning(
            "this worker runs no tools, because tools cannot run in its pool. "
            "Start another one for them: `python manage.py mcp worker`"
        )


def _names_queues(worker: Any) -> bool:
    """Return whether a worker was started with `-Q`, or made by a test helper of Celery."""
    return bool(getattr(worker, "names_queues", True))
