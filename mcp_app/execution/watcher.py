"""The watcher: a thread beside the tools that looks whether one that runs is to stop, and makes it.

Woken by a datagram from the worker's main process it re-reads the rows that are named, and all of them once a second:
the row is the truth. It tells the tool, interrupts it when the cooperative grace is over, and tells the main process
when the deadline has passed. Refuses to kill: a tool that holds the interpreter stops this thread too, so that is the
main process's.
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
from mcp_app.execution import connections
from mcp_app.execution.context import ToolContext
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.slots import Slot
from mcp_app.execution.termination import SETTLING, Termination
from mcp_app.lifecycle import observation, publishing, transitions, wakeups
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Stage

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
ASK_AGAIN_AFTER = 0.02
ASK_TIMES = 50
"""How often an interrupt is asked for that the tool's place in the code puts off, before it is raised anywhere."""
HANDLING = 0.005
"""Seconds in which a tool that is in Python code has been interrupted."""
ASYNC_GRACE = 0.1
"""What an `async` tool is given, at the least, between `asyncio` cancellation and the interrupt."""
TELL_AGAIN_AFTER = 5.0
"""Seconds after which the main process is told again that the deadline has passed."""
STAGE_AFTER = 0.2
"""A tool still running this long after a step has that stage noted while it runs."""


def child_address(worker: UUID, pid: int) -> str:
    """The name under which the watcher of one worker child is woken."""
    return f"{worker.hex}.{pid}"


@dataclass(eq=False, slots=True)
class Running:
    """A call that runs in this process now, and how far it has been pushed to stop."""

    row: Request
    context: ToolContext
    slot: Slot
    wrappers: list[BaseDatabaseWrapper]
    wrappers_of_threads: list[BaseDatabaseWrapper] = field(default_factory=list)
    stage: Stage = Stage.NONE
    asked: int = 0
    """How often the interrupt has been asked for."""
    told_to_end: bool = False
    """Whether its process was, and it is to be cancelled in its time."""
    cancel_task: Callable[[], None] | None = None
    """Cancels the `asyncio` task of an `async` tool, from any thread."""
    wake_loop: Callable[[], None] | None = None
    """Has the event loop of an `async` tool look up, from any thread: a thread that waits in C sees no interrupt."""
    abandon: Callable[[], None] | None = None
    """Ends an `async` tool that shares its loop and takes no notice of the interrupt, from any thread."""
    is_over: bool = False
    """Whether its body has ended: the end of many that stop together is written one after another."""
    timers: list[tuple[float, Callable[["Running"], None]]] = field(default_factory=list)

    def after(self, seconds: float, action: Callable[["Running"], None]) -> None:
        self.timers.append((time.monotonic() + seconds, action))
        self.timers.sort(key=lambda timer: timer[0])

    def reach(self, stage: Stage) -> None:
        self.stage = max(self.stage, stage)


class Watcher:
    """Watches the calls of one process. `begin` and `end` bracket the armed body."""

    def __init__(self, worker: Identity, pid: int, recorder: Recorder, termination: Termination) -> None:
        self._socket = wakeups.listening_socket(child_address(worker.boot_id, pid))
        self._poll = select.poll()  # `select` takes no descriptor above 1,023, and a child of many has one
        self._poll.register(self._socket, select.POLLIN)
        self._main_pid = worker.pid
        self._recorder = recorder
        self._termination = termination
        self._lock = threading.Lock()
        self._running: dict[UUID, Running] = {}
        self._looked_at_all_at = -math.inf

    def start(self) -> None:
        threading.Thread(target=self._run, name="mcp-watcher", daemon=True).start()

    def begin(self, running: Running) -> None:
        running.after(running.row.run_limit, self._ask_for_the_end)
        with self._lock:
            self._running[running.row.pk] = running

    def end(self, running: Running) -> None:
        """Forget the call. Waits for a query cancellation under way, so that none strikes the next call."""
        with self._lock:
            self._running.pop(running.row.pk, None)

    def running(self) -> dict[UUID, Running]:
        """The calls that run now, by request."""
        with self._lock:
            return {pk: running for pk, running in self._running.items() if not running.is_over}

    def _run(self) -> None:
        while True:
            try:
                named = self._wait()
                self._end_with_main()
                self._look(named)
            except Exception:
                logger.exception("the watcher stumbled and goes on")
                django_connections.close_all()
                time.sleep(0.05)

    def _wait(self) -> set[UUID] | None:
        """Until a datagram comes, a timer is due, or it is time to look by oneself; at which requests, None: at all."""
        due = (running.timers[0][0] for running in self.running().values() if running.timers)
        look_at_all_at = self._looked_at_all_at + (LOOK_EVERY if self._termination.told_at is None else SETTLING)
        wait = min((look_at_all_at, *due)) - time.monotonic()
        named = wakeups.heard(self._socket) if self._poll.poll(max(0.0, wait) * 1000) else set()
        return named if time.monotonic() < look_at_all_at else None

    def _end_with_main(self) -> None:
        """A child whose main process died is to die too; the kernel's own signal for that can miss a young child."""
        if self._main_pid in (os.getpid(), os.getppid()):
            return
        for running in self.running().values():
            running.slot.kill_leftovers(running.row.pk)
        os.kill(os.getpid(), signal.SIGKILL)

    def _look(self, named: set[UUID] | None) -> None:
        """See to the calls that run. Whether they are to stop is asked of those that are named; None: of all."""
        if named is None:
            self._looked_at_all_at = time.monotonic()
        found = self.running()
        self._see_to_termination(found.values())
        asked = found.keys() if named is None else found.keys() & named
        unaware = [pk for pk in asked if not found[pk].context.is_cancelled]
        try:
            for request_id in self._to_stop(unaware):
                self._cooperate(found[request_id])
        finally:  # whatever the database says, whom it is known of is stopped
            self._take_steps(found.values())

    def _take_steps(self, found: Collection[Running]) -> None:
        for running in found:
            while running.timers and running.timers[0][0] <= time.monotonic() and self._still_runs(running):
                running.timers.pop(0)[1](running)

    def _see_to_termination(self, found: Collection[Running]) -> None:
        if (told_at := self._termination.told_at) is None:
            return
        for running in found:
            if not running.told_to_end:
                running.told_to_end = True
                left = settings.DRAIN_SECONDS - (time.monotonic() - told_at)
                running.after(left, self._ask_for_the_end_with_its_process)
        if not found:
            self._termination.end()

    def _still_runs(self, running: Running) -> bool:
        return self._running.get(running.row.pk) is running and not running.is_over

    def _to_stop(self, request_ids: Collection[UUID]) -> set[UUID]:
        """Those that were cancelled, or given up for lost: then nobody waits for them, nor could cancel them."""
        return observation.unwanted(request_ids) if request_ids else set()

    def _cooperate(self, running: Running) -> None:
        running.reach(Stage.COOPERATIVE)
        running.context.cancel()
        running.after(STAGE_AFTER, self._note_stage)
        grace = running.row.cooperative_grace
        if (cancel_task := running.cancel_task) is not None:
            cancel_task()
            grace = max(grace, ASYNC_GRACE)
        if running.row.cancel_policy != CancelPolicy.COOPERATIVE:
            running.after(grace, self._interrupt)

    def _interrupt(self, running: Running) -> None:
        interrupter = running.slot.interrupter
        with self._lock:
            if not self._still_runs(running):
                return
            running.asked += 1
            executing = connections.executing(running.wrappers)
            interrupter.interrupt(running.row.pk, insist=running.asked > ASK_TIMES)
        if (wake_loop := running.wake_loop) is not None:
            wake_loop()
        running.after(HANDLING, partial(self._cancel_queries, executing))
        if not interrupter.raised:
            running.after(ASK_AGAIN_AFTER if running.asked <= ASK_TIMES else LOOK_EVERY, self._interrupt)
        if running.asked == 1:
            running.after(STAGE_AFTER, self._note_stage)

    def _cancel_queries(self, executing: list[BaseDatabaseWrapper], running: Running) -> None:
        interrupter = running.slot.interrupter
        with self._lock:
            if not self._still_runs(running) or interrupter.shielded:
                return
            # Interrupted, it may have begun to clean up on SQLite; on PostgreSQL the query goes on without it.
            running.slot.connections.cancel_queries(executing, no_sqlite=interrupter.raised)
            running.slot.connections.cancel_queries(running.wrappers_of_threads)

    def _note_stage(self, running: Running) -> None:
        if running.slot.interrupter.raised:
            running.reach(Stage.INTERRUPT)
        request_id, stage = running.row.pk, running.stage
        self._recorder.cast(lambda: transitions.reach_stage(request_id, stage))

    def _ask_for_the_end(self, running: Running) -> None:
        # Cancelled by the main process: in this one the tool could stop the transaction half-way, its locks held.
        if not running.context.is_cancelled:
            publishing.tell_workers_of_deadline(running.row.pk, running.row.input_round)
            running.after(TELL_AGAIN_AFTER, self._ask_for_the_end)

    def _ask_for_the_end_with_its_process(self, running: Running) -> None:
        publishing.tell_workers_of_shutdown(running.row.pk)


def in_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> Callable[[], None]:
    """A function that has `action` called in the loop, from any thread; nothing once the loop is closed."""

    def call() -> None:
        try:
            loop.call_soon_threadsafe(action)
        except RuntimeError:
            logger.debug("the tool's event loop ended before its cancellation")

    return call
