"""The watcher: a thread of the worker's child that looks whether the running tool is to stop, and makes it.

Woken by a datagram from the worker's main process, else once a second, it re-reads the row: the row is the truth. It
tells the tool, interrupts it when the cooperative grace is over, and tells the main process when the deadline has
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
from mcp_app.lifecycle import publishing, transitions
from mcp_app.lifecycle.processes import Identity
from mcp_app.lifecycle.wakeups import listening_socket
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Stage, Status

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
ASK_AGAIN_AFTER = 0.02
ASK_TIMES = 50
"""How often an interrupt is asked for that the tool's place in the code puts off, before it is raised anywhere."""
HANDLING = 0.005
"""Seconds in which a tool that is in Python code has been interrupted."""
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
    wrappers_of_threads: list[BaseDatabaseWrapper] = field(default_factory=list)
    stage: Stage = Stage.NONE
    asked: int = 0
    """How often the interrupt has been asked for."""
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
        if not running.context.is_cancelled and self._is_to_stop(running.row.pk):
            self._cooperate(running)
        while running.timers and running.timers[0][0] <= time.monotonic() and running is self._running:
            running.timers.pop(0)[1](running)

    def _is_to_stop(self, request_id: UUID) -> bool:
        """Whether the call was cancelled, or given up for lost: then nobody waits for it, nor could cancel it."""
        wanted = Request.objects.filter(pk=request_id, status=Status.RUNNING, cancel_requested_at__isnull=True)
        return not wanted.exists()

    def _cooperate(self, running: Running) -> None:
        running.stage = Stage.COOPERATIVE
        running.context.cancel()
        running.after(STAGE_AFTER, self._note_stage)
        grace = running.row.cooperative_grace
        if (cancel_task := running.cancel_task) is not None:
            cancel_task()
            grace = max(grace, ASYNC_GRACE)
        if running.row.cancel_policy != CancelPolicy.COOPERATIVE:
            running.after(grace, self._interrupt)

    def _interrupt(self, running: Running) -> None:
        with self._lock:
            if running is not self._running:
                return
            running.asked += 1
            executing = connections.executing(running.wrappers)
            self._interrupter.interrupt(running.row.pk, insist=running.asked > ASK_TIMES)
            time.sleep(HANDLING)
            if not self._interrupter.shielded:
                # Interrupted, it may have begun to clean up on SQLite; on PostgreSQL the query goes on without it.
                connections.cancel_queries(executing, no_sqlite=self._interrupter.raised)
                connections.cancel_queries(running.wrappers_of_threads)
        if not self._interrupter.raised and running.asked <= ASK_TIMES:
            running.after(ASK_AGAIN_AFTER, self._interrupt)
        if running.asked == 1:
            running.after(STAGE_AFTER, self._note_stage)

    def _note_stage(self, running: Running) -> None:
        if self._interrupter.raised:
            running.stage = Stage.INTERRUPT
        request_id, stage = running.row.pk, running.stage
        self._recorder.cast(lambda: transitions.reach_stage(request_id, stage))

    def _ask_for_the_end(self, running: Running) -> None:
        # Cancelled by the main process: in this one the tool could stop the transaction half-way, its locks held.
        publishing.tell_workers_of_deadline(running.row.pk)


def task_canceller(
    loop: asyncio.AbstractEventLoop, task: "asyncio.Task[object]", context: ToolContext
) -> Callable[[], None]:
    """A function that cancels `task` from any thread, after `context.shield()`; nothing once its loop is closed."""

    def cancel_task() -> None:
        try:
            loop.call_soon_threadsafe(context.when_unshielded, task.cancel)
        except RuntimeError:
            logger.debug("the tool's event loop ended before its cancellation")

    return cancel_task
