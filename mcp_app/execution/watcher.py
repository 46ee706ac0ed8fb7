"""The watcher: a thread of the worker's child that looks whether the running tool is to stop, and makes it.

Woken by a datagram from the worker's main process, else once a second, it re-reads the row: the row is the truth. It
tells the tool, interrupts it when the cooperative grace is over, and asks for the cancellation when the deadline has
passed. Refuses to kill: a tool that holds the interpreter stops this thread too, so that is the main process's.
"""

import asyncio
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connections as django_connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.execution import connections, processes
from mcp_app.execution.context import ToolContext
from mcp_app.execution.interrupt import Interrupter
from mcp_app.execution.recorder import Recorder
from mcp_app.lifecycle import cancellation, transitions
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.lifecycle.processes import Identity
from mcp_app.lifecycle.wakeups import listening_socket
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Cause, Stage

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
ASYNC_GRACE = 0.1
"""What an `async` tool is given, at the least, between `asyncio` cancellation and the interrupt."""
STAGE_AFTER = 0.2
"""A tool still running this long after a step has that stage noted while it runs."""


def child_address(worker: UUID, pid: int) -> str:
    """The name under which the watcher of one worker child is woken."""
    return f"{worker.hex}.{pid}"


@dataclass(eq=False, slots=True)
class Running:
    """The call that runs in this child now, and how far it has been pushed to stop."""

    row: Request
    context: ToolContext
    wrappers: list[BaseDatabaseWrapper]
    stage: Stage = Stage.NONE
    cancel_task: Callable[[], None] | None = None
    """Cancels the `asyncio` task of an `async` tool, from any thread."""
    timers: list[tuple[float, Callable[["Running"], None]]] = field(default_factory=list)

    def after(self, seconds: float, action: Callable[["Running"], None]) -> None:
        self.timers.append((time.monotonic() + seconds, action))
        self.timers.sort(key=lambda timer: timer[0])


class Watcher:
    """Watches one running call at a time. `begin` and `end` bracket the armed body."""

    def __init__(self, worker: Identity, pid: int, interrupter: Interrupter, recorder: Recorder) -> None:
        self._socket = listening_socket(child_address(worker.boot_id, pid))
        self._main_pid = worker.pid
        self._interrupter = interrupter
        self._recorder = recorder
        self._lock = threading.Lock()
        self._running: Running | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="mcp-watcher", daemon=True).start()

    def begin(self, running: Running) -> None:
        running.after(running.row.time_limit, self._ask_for_the_end)
        with self._lock:
            self._running = running

    def end(self, running: Running) -> None:
        """Forget the call. Waits for a query cancellation under way, so that none strikes the next call."""
        with self._lock:
            self._running = None

    def hint(self) -> None:
        """Look now; for those inside this process."""
        self._look()

    def _run(self) -> None:
        while True:
            try:
                self._wait()
                self._end_with_main()
                self._look()
            except Exception:
                logger.exception("the watcher stumbled and goes on")
                django_connections.close_all()
                time.sleep(0.05)

    def _wait(self) -> None:
        """Until a datagram comes, a timer is due, or it is time to look by oneself."""
        running = self._running
        wait = LOOK_EVERY
        if running is not None and running.timers:
            wait = min(wait, max(0.0, running.timers[0][0] - time.monotonic()))
        if select.select([self._socket], [], [], wait)[0]:
            try:
                while True:
                    self._socket.recv(64)
            except BlockingIOError:
                pass

    def _end_with_main(self) -> None:
        """A child whose main process died is to die too; the kernel's own signal for that can miss a young child."""
        if self._main_pid in (os.getpid(), os.getppid()):
            return
        running = self._running
        if running is not None:
            processes.kill_leftovers(running.row.pk)
        os.kill(os.getpid(), signal.SIGKILL)

    def _look(self) -> None:
        running = self._running
        if running is None:
            return
        if not running.context.is_cancelled and self._is_cancel_requested(running.row.pk):
            self._cooperate(running)
        while running.timers and running.timers[0][0] <= time.monotonic() and running is self._running:
            running.timers.pop(0)[1](running)

    def _is_cancel_requested(self, request_id: UUID) -> bool:
        return Request.objects.filter(pk=request_id, cancel_requested_at__isnull=False).exists()

    def _cooperate(self, running: Running) -> None:
        running.stage = Stage.COOPERATIVE
        running.context.cancel()
        running.after(STAGE_AFTER, self._note_stage)
        grace = running.row.cooperative_grace
        if running.cancel_task is not None:
            running.cancel_task()
            grace = max(grace, ASYNC_GRACE)
        if running.row.cancel_policy != CancelPolicy.COOPERATIVE:
            running.after(grace, self._interrupt)

    def _interrupt(self, running: Running) -> None:
        with self._lock:
            if running is not self._running:
                return
            self._interrupter.interrupt(running.row.pk)
            if not self._interrupter.shielded:
                connections.cancel_queries(running.wrappers)
        running.after(STAGE_AFTER, self._note_stage)

    def _note_stage(self, running: Running) -> None:
        if self._interrupter.raised:
            running.stage = Stage.INTERRUPT
        request_id, stage = running.row.pk, running.stage
        self._recorder.cast(lambda: transitions.reach_stage(request_id, stage))

    def _ask_for_the_end(self, running: Running) -> None:
        limit = running.row.time_limit
        cancellation.cancel(
            running.row.pk, cause=Cause.DEADLINE, actor=SYSTEM, reason=f"the time limit of {limit:g} s has passed"
        )
        if not running.context.is_cancelled:
            self._cooperate(running)


def task_canceller(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[object]") -> Callable[[], None]:
    """A function that cancels `task` from any thread; nothing once its loop is closed."""

    def cancel_task() -> None:
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            logger.debug("the tool's event loop ended before its cancellation")

    return cancel_task
