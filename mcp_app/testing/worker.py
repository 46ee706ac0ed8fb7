"""The worker of a test's process: it runs what is queued at once, in the thread that queued it, to its end.

Stands where the broker is. What a tool starts is run by the time that `ctx.start` returns (as by Celery's
`task_always_eager`). Refuses a kill, and to run two calls beside each other.
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

from mcp_app.execution import runner
from mcp_app.execution.child import Child
from mcp_app.execution.interrupt import INTERRUPT_SIGNAL, Interrupter, SignalInterrupter
from mcp_app.execution.slots import Slot, ThreadSlot
from mcp_app.execution.termination import OfWorker
from mcp_app.execution.thread_interrupt import ThreadInterrupter
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.processes import Identity
from mcp_app.states import ProcessRole
from mcp_app.testing.connections import BorrowedConnections
from mcp_app.testing.recorder import InlineRecorder
from mcp_app.testing.watcher import InProcessWatcher


class BorrowedSlot(ThreadSlot):
    """The thread of the test, for one call. What else the test has started is not the call's."""

    def __init__(self) -> None:
        super().__init__(_interrupter(), BorrowedConnections())

    @contextmanager
    def marked(self, request_id: UUID) -> Iterator[None]:
        """The signals that the interrupt takes are the test's again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (INTERRUPT_SIGNAL, signal.SIGUSR1)}
        try:
            yield
        finally:
            for number, handler in before.items():
                # The interrupt's own stays where there was none: a late signal would end the process otherwise.
                if callable(handler) or (number == signal.SIGUSR1 and handler is not None):
                    signal.signal(number, handler)


class InProcessWorker:
    """One for each process."""

    def __init__(self) -> None:
        self.recorder = InlineRecorder(self)
        termination = OfWorker()
        self.watcher = InProcessWatcher(Identity(ProcessRole.WORKER), os.getpid(), self.recorder, termination)
        self.watcher.start()
        self._child = Child(os.getpid(), self.recorder, self.watcher, termination, _slot)
        self._queued: deque[UUID] = deque()
        self._listeners: dict[UUID, Callable[[Event], None]] = {}
        self.raised: dict[UUID, BaseException] = {}
        """By request: what Celery would have been told of, an exception that is not the author's to tell a client."""

    def send_task(self, name: str, task_id: str, queue: str) -> None:
        """As `broker.send_task`: a row is queued."""
        self._queued.append(UUID(task_id))

    def broadcast(self, command: str, arguments: dict[str, list[str]]) -> None:
        """As `broker.broadcast`: nobody else works here."""

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
        """While the block runs `listener` hears what the request's tool says; its runs end after so many seconds."""
        self._listeners[request_id] = listener
        if cancel_after is not None:
            self.watcher.delays[request_id] = cancel_after
        try:
            yield
        finally:
            del self._listeners[request_id]
            self.watcher.forget(request_id)

    def run_queued(self) -> None:
        """Run what is queued, to its end, and what that queues."""
        while self._queued:
            request_id = self._queued.popleft()
            with suppress(Ignore):  # cancelled before it ran
                _, _, ending = runner.serve(self._child, request_id)
                if ending.raised is not None and request_id in self._listeners:
                    self.raised[request_id] = ending.raised


def current() -> InProcessWorker:
    """This process's worker."""
    return _made(os.getpid())


@cache
def _made(pid: int) -> InProcessWorker:
    return InProcessWorker()


def _slot() -> Slot:
    return BorrowedSlot()


def _interrupter() -> Interrupter:
    if threading.current_thread() is threading.main_thread():
        return SignalInterrupter()
    return ThreadInterrupter()
