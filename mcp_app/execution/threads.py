"""The threads pool: what the ladder does where nothing can be killed, and how such a worker ends.

A thread is never ended from outside, so a call that still runs when its hard grace is over is *unstoppable here*: what
it started is killed where its policy allows that, its client is answered, and its row stays RUNNING until the thread
ends. Only the end of the process ends such a thread for certain. A worker that is to stop, and in which nothing else
runs, therefore replaces its process by `closing`, which can say so. Refuses to call anything stopped that was not.
"""

import logging
import os
import time
from typing import Any
from uuid import UUID

from celery import bootsteps
from celery.worker import state as worker_state
from django.db.models import QuerySet

from mcp_app.catalogue import catalogue
from mcp_app.catalogue.registry import registered_tools
from mcp_app.execution import closing, messages, processes
from mcp_app.execution.child import Child
from mcp_app.execution.ladder import Ladder
from mcp_app.execution.messages import BatchRequest
from mcp_app.execution.watcher import Running
from mcp_app.lifecycle import transitions
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Request, Tool
from mcp_app.states import CancelPolicy, Stage

logger = logging.getLogger(__name__)

LOOK_AT_END_SECONDS = 0.25
WRITING_SECONDS = 0.5
"""What a call whose body has ended is given to write its end, when the worker does not wait for running calls."""
NAMED = 3
"""How many of them, at the most, the warning of a worker's start names."""
STUCK_SECONDS = 5.0
"""What a worker that does not wait for running calls, and runs nothing, is given to end by itself."""
AFTER_KILL_SECONDS = 0.2
"""What a tool is given to end when the processes that it waited for were killed."""


class ThreadsPool:
    """Celery's threads pool, as the ladder sees it: one process, the worker's own."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def pids(self) -> set[int]:
        return {os.getpid()}

    def holds_work(self) -> bool:
        return bool(worker_state.reserved_requests)

    @property
    def is_ending(self) -> bool:
        """Whether the worker was told to stop, however."""
        told = worker_state.should_stop not in (None, False) or self.is_ending_cold
        return told or self._worker.blueprint.state != bootsteps.RUN

    @property
    def is_ending_cold(self) -> bool:
        """Whether running calls are not to be waited for."""
        return worker_state.should_terminate not in (None, False)


class ThreadsLadder(Ladder):
    """The ladder of a worker whose tools run in threads."""

    pool_name = "threads"
    forced = frozenset({CancelPolicy.INTERRUPT, CancelPolicy.KILL})
    loss = "its run is over, and how it ended could not be stored"

    def __init__(self, identity: Identity, pool: ThreadsPool, child: Child) -> None:
        super().__init__(identity, pool)
        self._threads = pool
        self._child = child
        self._given_up: set[UUID] = set()
        self._ends_by: float | None = None
        self._idle_since: float | None = None

    def warn(self) -> None:
        """Say how many tools this worker cannot stop as their policies say, and name some."""
        said = Tool.objects.in_bulk()
        offered = filter(None, (catalogue.effective(said.get(name, Tool(name=name))) for name in registered_tools()))
        killed = sorted(tool.name for tool in offered if tool.cancel_policy == CancelPolicy.KILL)
        if killed:
            named = ", ".join(killed[:NAMED]) + (", …" if len(killed) > NAMED else "")
            told = "a worker with the %s pool kills no tool, though the policy of %d is kill (%s)"
            logger.warning(told, self.pool_name, len(killed), named)

    def start(self) -> None:
        self.every(LOOK_AT_END_SECONDS, self._look_at_end)
        super().start()

    def _schedule_last_steps(self, among: QuerySet[Request]) -> None:
        super()._schedule_last_steps(among.exclude(pk__in=self._given_up))

    def _take_last_step(self, row: Request) -> None:
        self._last_steps.discard(row.pk)
        running = self._child.watcher.running().get(row.pk)
        if running is None:
            return
        if row.cancel_policy == CancelPolicy.KILL and self._kill_started(running):
            self._timers.after(AFTER_KILL_SECONDS, lambda: self._give_up(row.pk))
        else:
            self._give_up(row.pk)

    def _kill_started(self, running: Running) -> bool:
        """Kill what the tool has started, and may wait for; whether there was anything."""
        request_id = running.row.pk
        started = running.slot.started()
        if not started and not (running.context.has_run and processes.find(request_id)):
            return False
        # Noted before: the tool may end, and its row with it, as soon as they have.
        running.reach(Stage.KILL)
        transitions.reach_stage(request_id, Stage.KILL)
        processes.kill_all(request_id, started)
        return True

    def _give_up(self, request_id: UUID) -> None:
        known = request_id in self._given_up or request_id not in self._child.watcher.running()
        if not known and transitions.give_up(request_id):
            self._given_up.add(request_id)
            logger.error("request %s outlived its hard grace and cannot be stopped here: it runs on", request_id)

    def _close_rows_that_nobody_runs(self) -> None:
        rows = list(self._mine())
        self._given_up &= {row.pk for row in rows}
        for row in rows:
            if not self._is_run(row):  # read after the rows: it is in there before a row says so
                self._close_lost(row.pk)

    def _is_run(self, row: Request) -> bool:
        return row.pk in self._child.claimed

    def _look_at_end(self) -> None:
        """A call whose body has ended is waited for as well: its end is being written."""
        if not self._threads.is_ending:
            return
        claimed = frozenset(self._child.claimed)
        if self._is_stuck(bool(claimed)):
            logger.error("the worker runs nothing and does not end: its process is replaced")
            closing.replace_process(self._identity.boot_id, claimed)
        if not claimed:
            return
        running = self._child.watcher.running()
        if self._threads.is_ending_cold and self._ends_by is None:
            graces = (each.row.hard_grace for each in running.values())
            self._ends_by = time.monotonic() + max(graces, default=0.0) + WRITING_SECONDS
            self._end_calls(set(CancelPolicy))
        overdue = self._ends_by is not None and time.monotonic() > self._ends_by
        if overdue or claimed <= self._given_up:
            logger.error("the worker ends, and with it the threads of %d calls", len(claimed))
            for request_id, each in running.items():
                processes.kill_all(request_id, each.slot.started())
            closing.replace_process(self._identity.boot_id, claimed)

    def _is_stuck(self, runs_calls: bool) -> bool:
        """Whether a cold shutdown hangs although nothing runs.

        Celery stops its pool inside the signal's handler. One that came while the pool took in a call waits for the
        lock that the code beneath it holds.
        """
        now = time.monotonic()
        # A batch that was being taken apart stays active; those of its calls that run are claimed.
        others_run = any(not isinstance(each, BatchRequest) for each in messages.active())
        if runs_calls or others_run or not self._threads.is_ending_cold:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        return self._idle_since is not None and now - self._idle_since > STUCK_SECONDS
