"""What Celery's worker holds of one of our messages, in its main process.

Refuses the database to the worker's event loop: Celery stores there that a task was revoked, or lost with its child. A
database that is away at that moment would end the worker, one that is silent stop it. The ladder has it stored instead.
"""

from typing import Any

from celery.concurrency.thread import TaskPool as ThreadTaskPool
from celery.worker.request import Request

from mcp_app.states import Status

_CANCELLED = repr(Status.CANCELLED.value)


class ToolRequest(Request):
    """Celery's own, of a task whose result the main process does not store by itself."""

    @property
    def store_errors(self) -> bool:
        return False

    def _success_was_stored(self) -> bool:
        """Of a child that was lost: its row says it, and who asked its user has a result from before."""
        return False

    def cancel(self, pool: Any, signal: Any = None, emit_retry: bool = True) -> None:
        """As a cold shutdown begins. A thread is not for Celery to end, which would raise: its ladder sees to it."""
        if not isinstance(pool, ThreadTaskPool):
            super().cancel(pool, signal, emit_retry)

    def send_event(self, kind: str, **fields: Any) -> None:
        """Celery takes for a success what returns; who listens to its events hears of a stop as of others'."""
        if kind == "task-succeeded" and fields["result"] == _CANCELLED:
            super().send_event("task-revoked", terminated=False, signum=None, expired=False)
        else:
            super().send_event(kind, **fields)
