"""What Celery's worker holds of one of our messages, in its main process: of one call, or of several.

Refuses the database to the worker's event loop: Celery stores there that a task was revoked, or lost with its child. A
database that is away at that moment would end the worker, one that is silent stop it. The ladder has it stored instead.
"""

import threading
from typing import Any, Final

from celery.concurrency.thread import TaskPool as ThreadTaskPool
from celery.utils.dispatch import Signal
from celery.worker import state as worker_state
from celery.worker.request import Request
from kombu.asynchronous import get_event_loop

from mcp_app.states import Status

_CANCELLED = repr(Status.CANCELLED.value)
HELD_UP: Final = 0.05
"""Seconds after which calls of one message are not to wait any longer for those before them."""

left_behind = Signal(name="mcp_left_behind", providing_args={"request_ids"})
"""Of these calls those that nobody has claimed yet are for others to run."""


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
    """The same of several calls: those that it leaves, or keeps waiting, are given to others."""

    @property
    def request_ids(self) -> list[str]:
        return list(self.args)

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        super().on_accepted(pid, time_accepted)
        # Celery's own timers are its event loop's thread's.
        if threading.current_thread() is threading.main_thread() and (hub := get_event_loop()) is not None:
            hub.call_later(HELD_UP, self._look)  # type: ignore[no-untyped-call] # kombu types a part of itself

    def on_failure(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().on_failure(*args, **kwargs)
        finally:
            self._give_to_others()

    def terminate(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().terminate(*args, **kwargs)
        finally:
            self._give_to_others()

    def _look(self) -> None:
        if self in worker_state.active_requests:
            self._give_to_others()

    def _give_to_others(self) -> None:
        left_behind.send(sender=self, request_ids=self.request_ids)
