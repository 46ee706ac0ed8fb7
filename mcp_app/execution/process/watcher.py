"""The thread that notices that a running call must stop, and makes it stop.

Theory of operation
-------------------

Each process that runs tools has one watcher thread. `begin` and `end` tell it which calls run. It
sleeps in `poll` until a datagram arrives, a timer is due, or `CHECK_INTERVAL_SECONDS` have passed.

    main process --datagram--> watcher --reads--> row
                                  |
              stop signal, cancelled asyncio task    at once   Stage.COOPERATIVE
              exception in the tool's thread         + cooperative grace  Stage.INTERRUPT
              (last step: the ladder, in the main process, after the hard grace)

1. The row is the truth. A datagram only names requests whose rows should be read now. Once a second,
   or more often while the process must end, the rows of all calls that are not known as cancelled are
   read, so a lost datagram costs a second and nothing else.
2. A call that was cancelled or declared lost is first asked to stop: its stop signal is set, and the
   `asyncio` task of an `async` tool is cancelled.
3. After the cooperative grace the interrupter raises `ToolCancelled` in the tool's thread, unless
   the policy is `COOPERATIVE`. If the tool is in a delicate place (see `interrupt.is_delicate`) or in
   a shield, nothing is raised and the attempt is repeated. After MAX_GENTLE_ATTEMPTS it is raised in
   a delicate place too, but never in a shield. After each attempt, queries that the tool was
   executing are cancelled, because a thread that waits in C does not see the exception.
4. The watcher writes no cancellation: a tool that holds the interpreter of its process could stop
   that transaction half-way, with its locks held. If a time limit has passed, or the process must
   end, the watcher reports that through `worker_pipe`, and the main process cancels. In prefork pools
   this is another process.
5. The watcher does not kill to end a call, because a tool that holds the interpreter blocks this
   thread as well. The ladder takes that step. The watcher kills only its own process and what its
   calls have started, if the main process has died.
6. `_lock` prevents that an interrupt or a query cancellation hits the next call in the same slot:
   `end` waits until one that is under way is over.

All later steps against a call are timers in `Running.timers`, which only the watcher's thread runs.
They run even if the rows could not be read.
"""

import asyncio
import logging
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from django.db import connections as django_connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.conf import settings
from mcp_app.execution.process import slots, worker_pipe
from mcp_app.execution.process.slots import Slot
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping.termination import SETTLING_SECONDS, Termination
from mcp_app.execution.tool.context import ToolContext
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Stage
from mcp_app.tracing import NOT_RECORDED, Span

logger = logging.getLogger(__name__)

CHECK_INTERVAL_SECONDS = 1.0
RETRY_INTERRUPT_SECONDS = 0.02
MAX_GENTLE_ATTEMPTS = 50
"""How many times an interrupt is put off because of a delicate place, before it is raised even there."""
QUERY_CANCEL_DELAY_SECONDS = 0.005
"""The delay from an interrupt to the query cancellation. A tool that still executes a query after it waits in C."""
ASYNC_GRACE_SECONDS = 0.1
"""The least time between the cancellation of the `asyncio` task and the interrupt."""
REPEAT_REPORT_SECONDS = 5.0
"""The interval at which a report to the main process is repeated."""
NOTE_STAGE_SECONDS = 0.2
"""The stage is written with the ending, or earlier if the tool still runs this long after the step."""


def child_address(worker: UUID, pid: int) -> str:
    """Return the address of the watcher in one process of a worker."""
    return f"{worker.hex}.{pid}"


@dataclass(eq=False, slots=True)
class Running:
    """A call that runs in this process, and the steps that were taken to stop it."""

    row: Request
    context: ToolContext
    slot: Slot
    span: Span = NOT_RECORDED
    wrappers: list[BaseDatabaseWrapper] = field(default_factory=list)
    wrappers_of_threads: list[BaseDatabaseWrapper] = field(default_factory=list)
    stage: Stage = Stage.NONE
    interrupt_attempts: int = 0
    """How often the interrupter was asked to raise."""
    has_termination_timer: bool = False
    """Whether a timer will report that the process of this call must end."""
    cancel_task: Callable[[], None] | None = None
    """Cancel the `asyncio` task of an `async` tool. Like the next two, safe in any thread."""
    wake_loop: Callable[[], None] | None = None
    """Wake the event loop of an `async` tool, which sees no interrupt while it waits."""
    abandon: Callable[[], None] | None = None
    """Close the coroutines of a call that shares its loop and ignores the interrupt."""
    is_over: bool = False
    """Whether the body has ended, although its ending may not be written yet."""
    has_leftovers: bool = False
    """Whether a process that this call had started survived its kill."""
    timers: list[tuple[float, Callable[["Running"], None]]] = field(default_factory=list)

    def after(self, seconds: float, action: Callable[["Running"], None]) -> None:
        self.timers.append((time.monotonic() + seconds, action))
        self.timers.sort(key=lambda timer: timer[0])

    def reach(self, stage: Stage) -> None:
        self.stage = max(self.stage, stage)


class Watcher:
    """Watches the calls of one process, between `begin` and `end`."""

    def __init__(self, worker: Identity, pid: int, recorder: Recorder, termination: Termination) -> None:
        self._socket = wakeups.listening_socket(child_address(worker.boot_id, pid))
        # `select` fails for descriptors above 1,023, which processes of large pools have.
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._main_pid = worker.pid
        self._recorder = recorder
        self._termination = termination
        self._lock = threading.Lock()
        self._running: dict[UUID, Running] = {}
        self._checked_all_at = -math.inf

    def start(self) -> None:
        threading.Thread(target=self._run, name="mcp-watcher", daemon=True).start()

    def begin(self, running: Running) -> None:
        running.after(running.row.run_limit, self._report_limit)
        with self._lock:
            self._running[running.row.pk] = running

    def end(self, running: Running) -> None:
        """Forget the call. Waits for an interrupt or a query cancellation that is under way."""
        with self._lock:
            self._running.pop(running.row.pk, None)

    def running(self) -> dict[UUID, Running]:
        """Return the calls that run now, by request id."""
        with self._lock:
            return {pk: running for pk, running in self._running.items() if not running.is_over}

    def _run(self) -> None:
        while True:
            try:
                named = self._wait()
                self._exit_with_main_process()
                self._check_calls(named)
            except Exception:
                logger.exception("the watcher failed and continues")
                django_connections.close_all()
                time.sleep(0.05)

    def _wait(self) -> set[UUID] | None:
        """Sleep until there is work. Return the requests to check, or `None` for all."""
        due = (running.timers[0][0] for running in self.running().values() if running.timers)
        interval = CHECK_INTERVAL_SECONDS if self._termination.received_at is None else SETTLING_SECONDS
        check_all_at = self._checked_all_at + interval
        wait = min((check_all_at, *due)) - time.monotonic()
        named = wakeups.receive(self._socket) if self._poll.poll(max(0.0, wait) * 1000) else set()
        return named if time.monotonic() < check_all_at else None

    def _exit_with_main_process(self) -> None:
        """Kill this process if its main process has died.

        The kernel's parent-death signal can miss a process that was just forked.
        """
        if self._main_pid in (os.getpid(), os.getppid()):
            return
        for running in self.running().values():
            running.slot.kill_leftovers(running.row.pk)
        os.kill(os.getpid(), signal.SIGKILL)

    def _check_calls(self, named: set[UUID] | None) -> None:
        """Ask the named calls that were cancelled to stop, then run the due timers of all calls.

        `None` names all calls. Also advances the termination of the process.
        """
        if named is None:
            self._checked_all_at = time.monotonic()
        running_now = self.running()
        self._advance_termination(running_now.values())
        to_check = running_now.keys() if named is None else running_now.keys() & named
        unaware = [pk for pk in to_check if not running_now[pk].context.is_cancelled]
        try:
            for request_id in self._find_unwanted(unaware):
                self._request_stop(running_now[request_id])
        finally:  # also if the rows cannot be read: for known cancellations the steps go on
            for running in running_now.values():
                while running.timers and running.timers[0][0] <= time.monotonic() and self._is_still_running(running):
                    running.timers.pop(0)[1](running)

    def _advance_termination(self, found: Collection[Running]) -> None:
        if (received_at := self._termination.received_at) is None:
            return
        for running in found:
            if not running.has_termination_timer:
                running.has_termination_timer = True
                left = settings.DRAIN_SECONDS - (time.monotonic() - received_at)
                running.after(left, self._report_must_end)
        if not found:
            self._termination.end()

    def _is_still_running(self, running: Running) -> bool:
        return self._running.get(running.row.pk) is running and not running.is_over

    def _find_unwanted(self, request_ids: Collection[UUID]) -> set[UUID]:
        """Return the requests that were cancelled or declared lost."""
        return observation.unwanted(request_ids) if request_ids else set()

    def _request_stop(self, running: Running) -> None:
        running.reach(Stage.COOPERATIVE)
        running.context.cancel()
        running.after(NOTE_STAGE_SECONDS, self._note_stage)
        grace = running.row.cooperative_grace
        if (cancel_task := running.cancel_task) is not None:
            cancel_task()
            grace = max(grace, ASYNC_GRACE_SECONDS)
        if running.row.cancel_policy != CancelPolicy.COOPERATIVE:
            running.after(grace, self._interrupt)

    def _interrupt(self, running: Running) -> None:
        interrupter = running.slot.interrupter
        with self._lock:
            if not self._is_still_running(running):
                return
            running.interrupt_attempts += 1
            executing = slots.with_running_query(running.wrappers)
            insist = running.interrupt_attempts > MAX_GENTLE_ATTEMPTS
            interrupter.interrupt(running.row.pk, insist=insist)
        if (wake_loop := running.wake_loop) is not None:
            wake_loop()
        running.after(QUERY_CANCEL_DELAY_SECONDS, partial(self._cancel_queries, executing))
        if not interrupter.raised:
            running.after(CHECK_INTERVAL_SECONDS if insist else RETRY_INTERRUPT_SECONDS, self._interrupt)
        if running.interrupt_attempts == 1:
            running.after(NOTE_STAGE_SECONDS, self._note_stage)

    def _cancel_queries(self, executing: list[BaseDatabaseWrapper], running: Running) -> None:
        interrupter = running.slot.interrupter
        with self._lock:
            if not self._is_still_running(running) or interrupter.shielded:
                return
            running.slot.connections.cancel_queries(executing, is_interrupted=interrupter.raised)
            running.slot.connections.cancel_queries(running.wrappers_of_threads)

    def _note_stage(self, running: Running) -> None:
        if running.slot.interrupter.raised:
            running.reach(Stage.INTERRUPT)
        request_id, stage = running.row.pk, running.stage
        self._recorder.enqueue(lambda: transitions.reach_stage(request_id, stage))

    def _report_limit(self, running: Running) -> None:
        # The main process cancels: see point 4 above.
        if not running.context.is_cancelled:
            worker_pipe.report_limit(running.row.pk, running.row.input_round)
            running.after(REPEAT_REPORT_SECONDS, self._report_limit)

    def _report_must_end(self, running: Running) -> None:
        worker_pipe.report_end(running.row.pk)
        running.after(REPEAT_REPORT_SECONDS, self._report_must_end)


def in_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls `action` in the loop, or does nothing if the loop is closed.

    Safe in any thread.
    """

    def call() -> None:
        try:
            loop.call_soon_threadsafe(action)
        except RuntimeError:
            logger.debug("the tool's event loop ended before its cancellation")

    return call
