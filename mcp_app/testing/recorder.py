"""The recorder of a test's process: it writes in the calling thread, on the test's connections.

Progress and log lines are thinned as in a worker, and stored when the tool's body has ended, so that a rollback in
the tool does not remove them. Writes of other threads are delayed until then, too.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar
from uuid import UUID

from mcp_app.execution.recorder import RETRY_SECONDS, Recorder, write_events
from mcp_app.lifecycle.requests.events import Event
from mcp_app.testing.connections import BorrowedConnections

R = TypeVar("R")


class Hooks(Protocol):
    """Callbacks for the events of a recorder."""

    def heard(self, request_id: UUID, event: Event) -> None:
        """Called when a tool has reported progress or logged a message."""

    def closing(self) -> None:
        """Called when the body of a call has ended, before the end is stored."""

    def written(self) -> None:
        """Called after a write that may have queued a call."""


class InlineRecorder(Recorder):
    """A worker's recorder without the thread."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self._hooks = hooks
        self.lent = BorrowedConnections()
        """The test's connections: made in its thread, outside of any event loop."""
        self._taken: dict[UUID, list[Event]] = {}
        self._put_off: deque[Callable[[], object]] = deque()

    def call(self, function: Callable[[], R], *, patience: float = RETRY_SECONDS) -> R:
        """Run `function` here, or in another thread if an event loop runs in this one, where Django refuses queries."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._here(function)
        with ThreadPoolExecutor(1, initializer=self.lent.enter_thread) as beside:
            try:
                return beside.submit(self._here, function).result()
            finally:
                self.lent.leave_threads(self.lent.wrappers)

    def call_in_this_thread(self, function: Callable[[], R], *, patience: float = RETRY_SECONDS) -> R:
        return self.call(function, patience=patience)

    def enqueue(self, function: Callable[[], object]) -> None:
        """Run `function` when the body of the running call has ended. Any thread may call this."""
        self._put_off.append(function)

    def post(self, request_id: UUID, event: Event) -> None:
        with self._lock:
            now = time.monotonic()
            if (buffer := self._get_buffer(request_id, now)) is None:
                return
            buffer.offer(event, now)
            if buffer.wait(now) == 0.0:
                self._taken.setdefault(request_id, []).extend(buffer.take(now))
        self._hooks.heard(request_id, event)

    def close(self, request_id: UUID, ending: Callable[[], R]) -> R:
        self._hooks.closing()
        while self._put_off:
            self._put_off.popleft()()
        write_events(request_id, self._taken.pop(request_id, []))
        return super().close(request_id, ending)

    def _here(self, function: Callable[[], R]) -> R:
        made = function()
        self._hooks.written()
        return made
