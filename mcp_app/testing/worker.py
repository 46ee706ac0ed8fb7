"""The worker of a test's process: it runs a queued request to its end at once, in the thread that queued it.

It replaces the broker. A call that a tool starts has ended when `ctx.start` returns, as with Celery's
`task_always_eager`. It neither kills a call nor runs two at the same time.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from uuid import UUID

from celery.exceptions import Ignore

from mcp_app.execution.process.child import Child
from mcp_app.execution.process.slots import Slot, ThreadSlot
from mcp_app.execution.run import runner
from mcp_app.execution.stopping.interrupt import INTERRUPT_SIGNAL, Interrupter, SignalInterrupter
from mcp_app.execution.stopping.termination import WorkerTermination
from mcp_app.execution.stopping.thread_interrupt import ThreadInterrupter
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests.events import Event
from mcp_app.states import ProcessRole
from mcp_app.testing.connections import BorrowedConnections
from mcp_app.testing.recorder import InlineRecorder
from mcp_app.testing.watcher import InProcessWatcher


class BorrowedSlot(ThreadSlot):
    """The test's thread, as the slot of one call. Other threads and processes of the test do not belong to the call."""

    def __init__(self) -> None:
        super().__init__(_interrupter(), BorrowedConnections())

    @contextmanager
    def isolated(self, request_id: UUID) -> Iterator[None]:
        """Restore the test's handler of the interrupt signal afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(INTERRUPT_SIGNAL)
        try:
            yield
        finally:
            # If there was no handler, ours stays: a late signal would end the process otherwise.
            if callable(before):
                signal.signal(INTERRUPT_SIGNAL, before)


class InProcessWorker:
    """A worker in the test's process. There is one for each process."""

    def __init__(self) -> None:
        self.recorder = InlineRecorder(self)
        termination = WorkerTermination()
        self.watcher = InProcessWatcher(Identity(ProcessRole.WORKER), os.getpid(), self.recorder, termination)
        self.watcher.start()
        self._child = Child(os.getpid(), self.recorder, self.watcher, termination, _slot)
        self._queued: deque[UUID] = deque()
        self._listeners: dict[UUID, Callable[[Event], None]] = {}
        self.raised: dict[UUID, BaseException] = {}
        """By request, the unexpected exception that a production worker would have reported to Celery."""

    def send_task(self, name: str, task_id: str, queue: str) -> None:
        """Replace `broker.send_task`: note that a row is queued."""
        self._queued.append(UUID(task_id))

    def broadcast(self, command: str, arguments: dict[str, list[str]]) -> None:
        """Replace `broker.broadcast`. There are no other workers to reach."""

    def heard(self, request_id: UUID, event: Event) -> None:
        if (listener := self._listeners.get(request_id)) is not None:
            listener(event)

    def closing(self) -> None:
        self.watcher.store_cancellations()

    def written(self) -> None:
        self.run_queued()

    @contextmanager
    def listening(
        self, request_id: UUID, listener: Callable[[Event], None], cancel_after: float | None
    ) -> Iterator[None]:
        """Inside the block, pass the tool's events to `listener`, and cancel its runs after `cancel_after` seconds."""
        self._listeners[request_id] = listener
        if cancel_after is not None:
            self.watcher.delays[request_id] = cancel_after
        try:
            yield
        finally:
            del self._listeners[request_id]
            self.watcher.forget(request_id)

    def run_queued(self) -> None:
        """Run every queued request to its end, including requests that those runs queue."""
        while self._queued:
            request_id = self._queued.popleft()
            with suppress(Ignore):  # cancelled before it ran
                finished = runner.run_claimed(self._child, runner.claim(self._child, request_id))
                if (raised := finished.ending.celery_error) is not None and request_id in self._listeners:
                    self.raised[request_id] = raised


def current() -> InProcessWorker:
    """Return this process's worker."""
    return _main_thread_child(os.getpid())


@cache
def _main_thread_child(pid: int) -> InProcessWorker:
    return InProcessWorker()


def _slot() -> Slot:
    return BorrowedSlot()


def _interrupter() -> Interrupter:
    if threading.current_thread() is threading.main_thread():
        return SignalInterrupter()
    return ThreadInterrupter()
