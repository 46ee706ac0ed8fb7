"""The ladder of a threads pool, in which no call can be killed, and the end of such a worker.

Theory of operation
-------------------

A thread cannot be ended from outside; only the end of its process ends it. So the last step is:

1. If the policy is `KILL`, kill the processes that the tool has started. It may be waiting for
   them, so it gets AFTER_KILL_SECONDS to end.
2. If it still runs, give it up: its client gets an answer, and the row stays RUNNING until the
   thread ends. Such a call is called *unstoppable here*.

A worker that must end waits for its threads. It replaces its process by `closing`, which ends every
thread and then closes the rows, in three cases:

- all remaining calls have been given up;
- the worker does not wait for running calls (cold shutdown), and their grace is over;
- Celery's cold shutdown hangs although nothing runs.

A call is never reported as stopped before its thread has ended.
"""

import logging
import time
from uuid import UUID

from django.db.models import QuerySet

from mcp_app.catalogue import catalogue
from mcp_app.catalogue.registry import registered_tools
from mcp_app.celery_adapter import consumer
from mcp_app.celery_adapter.thread_pool import ThreadsPool
from mcp_app.execution.pools import closing
from mcp_app.execution.process.child import Child
from mcp_app.execution.process.ladder import Ladder
from mcp_app.execution.process.watcher import Running
from mcp_app.execution.stopping import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request, Tool
from mcp_app.states import CancelPolicy, Stage

logger = logging.getLogger(__name__)

CHECK_END_SECONDS = 0.25
WRITE_ENDING_SECONDS = 0.5
"""In a cold shutdown, the time for a call whose body has ended to write its ending."""
MAX_NAMED_TOOLS = 3
"""How many tools the warning at the start of a worker names."""
STUCK_SECONDS = 5.0
"""In a cold shutdown, how long a worker that runs nothing may take to end."""
AFTER_KILL_SECONDS = 0.2
"""How long a tool may take to end after the processes that it waited for were killed."""


class ThreadsLadder(Ladder):
    """The ladder of a worker whose tools run in threads."""

    pool_name = "threads"
    last_step_policies = frozenset({CancelPolicy.INTERRUPT, CancelPolicy.KILL})
    lost_message = "its run ended, but its result could not be stored"

    def __init__(self, identity: Identity, pool: ThreadsPool, child: Child) -> None:
        super().__init__(identity, pool)
        self._threads = pool
        self._child = child
        self._given_up: set[UUID] = set()
        self._ends_by: float | None = None
        self._idle_since: float | None = None

    def warn(self) -> None:
        """Log which tools this worker cannot stop as their policies demand."""
        rows = Tool.objects.in_bulk()
        offered = filter(None, (catalogue.effective(rows.get(name, Tool(name=name))) for name in registered_tools()))
        killed = sorted(tool.name for tool in offered if tool.cancel_policy == CancelPolicy.KILL)
        if killed:
            named = ", ".join(killed[:MAX_NAMED_TOOLS]) + (", …" if len(killed) > MAX_NAMED_TOOLS else "")
            warning = "a worker with the %s pool cannot kill tools, but %d tools have the cancel policy 'kill' (%s)"
            logger.warning(warning, self.pool_name, len(killed), named)

    def start(self) -> None:
        self.every(CHECK_END_SECONDS, self._end_worker_if_due)
        super().start()

    def _schedule_last_steps(self, among: QuerySet[Request]) -> None:
        super()._schedule_last_steps(among.exclude(pk__in=self._given_up))

    def _take_last_step(self, row: Request) -> None:
        running = self._child.watcher.running().get(row.pk)
        if running is None:
            return
        if row.cancel_policy == CancelPolicy.KILL and self._kill_started(running):
            self._timers.after(AFTER_KILL_SECONDS, lambda: self._give_up(row.pk))
        else:
            self._give_up(row.pk)

    def _kill_started(self, running: Running) -> bool:
        """Kill the processes that the tool has started. Return whether there were any."""
        request_id = running.row.pk
        started = running.slot.started()
        if not started and not (running.context.has_run and processes.find(request_id)):
            return False
        # Note the stage first: the tool, and its row, may end as soon as they are killed.
        running.reach(Stage.KILL)
        transitions.reach_stage(request_id, Stage.KILL)
        processes.kill_all(request_id, lambda: started)
        return True

    def _give_up(self, request_id: UUID) -> None:
        known = request_id in self._given_up or request_id not in self._child.watcher.running()
        if not known and transitions.give_up(request_id):
            self._given_up.add(request_id)
            logger.error(
                "request %s outlived its hard grace and cannot be stopped in this pool; it is still running", request_id
            )

    def _close_abandoned_rows(self) -> None:
        rows = list(self._mine())
        self._given_up &= {row.pk for row in rows}
        for row in rows:
            # `claimed` is read after the rows, and filled before a row is claimed.
            if not self._is_running_here(row):
                self._close_stopped(row.pk)

    def _is_running_here(self, row: Request) -> bool:
        return row.pk in self._child.claimed

    def _end_worker_if_due(self) -> None:
        """Replace the process of a worker that must end and cannot.

        A call whose body has ended is waited for as well, because its ending is being written.
        """
        if not self._threads.is_ending:
            return
        claimed = frozenset(self._child.claimed)
        if self._is_stuck(bool(claimed)):
            logger.error("the worker has no calls left but does not exit; its process is now forced to end")
            closing.replace_process(self._identity.boot_id, claimed)
        if not claimed:
            return
        running = self._child.watcher.running()
        if self._threads.is_ending_cold and self._ends_by is None:
            graces = (each.row.hard_grace for each in running.values())
            self._ends_by = time.monotonic() + max(graces, default=0.0) + WRITE_ENDING_SECONDS
            self._end_calls(set(CancelPolicy))
        overdue = self._ends_by is not None and time.monotonic() > self._ends_by
        if overdue or claimed <= self._given_up:
            logger.error("the worker exits although %d calls have not ended; their threads end with it", len(claimed))
            for request_id, each in running.items():
                processes.kill_all(request_id, each.slot.started)
            closing.replace_process(self._identity.boot_id, claimed)

    def _is_stuck(self, runs_calls: bool) -> bool:
        """Return whether a cold shutdown hangs although nothing runs.

        Celery stops its pool inside the signal handler. If the signal came while the pool took in a
        call, the handler waits for a lock that the interrupted code holds.
        """
        now = time.monotonic()
        if runs_calls or consumer.active() or not self._threads.is_ending_cold:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        return self._idle_since is not None and now - self._idle_since > STUCK_SECONDS
