"""What Celery's worker holds of one of our messages, in its main process: of one call, or of several.

Refuses the database to the worker's event loop: Celery stores there that a task was revoked, or lost with its child. A
database that is away at that moment would end the worker, one that is silent stop it. The ladder has it stored instead.
"""

from contextlib import suppress
from typing import Any, Final

from celery import signals
from celery.concurrency.thread import TaskPool as ThreadTaskPool
from celery.utils.dispatch import Signal
from celery.worker import state as worker_state
from celery.worker.request import Request

from mcp_app.states import Status

LOOKS: Final = 10
"""At what Celery's own thread may change meanwhile."""
_CANCELLED = repr(Status.CANCELLED.value)

batch_begun = Signal(name="mcp_batch_begun")
"""The sender, a `BatchRequest`, has begun to run its calls. From any thread."""
batch_broken = Signal(name="mcp_batch_broken", providing_args={"request_ids"})
"""Of these calls those that nobody has claimed are for others to run. From any thread."""


class ToolRequest(Request):
    """Celery's own, of a task whose result the main process does not store by itself."""

    @property
    def request_ids(self) -> list[str]:
        """The requests whose calls it is to run."""
        return [self.id]

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


class BatchRequest(ToolRequest):
    """The same of several calls. `batch_begun` and `batch_broken` tell who gives to others what waits in it."""

    @property
    def request_ids(self) -> list[str]:
        return list(self.args)

    @property
    def is_active(self) -> bool:
        """Whether some of its calls may still be run by what took it."""
        return self in worker_state.active_requests

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        super().on_accepted(pid, time_accepted)
        batch_begun.send(sender=self)

    def on_failure(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().on_failure(*args, **kwargs)
        finally:
            batch_broken.send(sender=self, request_ids=self.request_ids)

    def terminate(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().terminate(*args, **kwargs)
        finally:
            batch_broken.send(sender=self, request_ids=self.request_ids)

    def _announce_cancelled(self, emit_retry: bool = True) -> None:
        """As Celery does it, which stores a result of what has none as well."""
        super()._announce_cancelled(emit_retry=False)
        if emit_retry:
            signals.task_retry.send(self.task, request=self._context, einfo=None)


def active() -> list[Request]:
    """What Celery has of the tasks that run, ours or others'. From any thread."""
    for _ in range(LOOKS):
        with suppress(RuntimeError):  # its own thread has changed the set meanwhile
            return list(worker_state.active_requests)
    return []
