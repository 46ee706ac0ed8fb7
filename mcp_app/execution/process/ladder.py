"""The thread of a worker's main process that takes the last step against a tool, and supervises.

Theory of operation
-------------------

A stop has three steps, each stronger than the one before. The watcher takes the first two in the
tool's own process. The third one is taken here: in a prefork pool this is another process, which runs
on even if the tool holds the interpreter of its own:

    1. cooperative   watcher   the stop signal is set
    2. interrupt     watcher   an exception is raised in the tool, after its cooperative grace
    3. last step     ladder    prefork: kill the process; threads and async: mark the call as unstoppable here

1. All work is done by timers on one thread (`Timers`), in visits: short uses of the database, after
   which the connection is closed (`main_database`). Methods marked "any thread" leave their work to a
   timer.
2. `cancel_requested` is called for Celery's control command about a cancellation. It wakes the
   watchers and schedules the last step for the time of the cancellation plus the hard grace.
   `_supervise` does the same for cancellations whose command was lost, and for steps that failed.
3. A call gets its last step if its cancel policy is in `_allowed_policies`. When the worker ends,
   INTERRUPT is added after the drain, or all policies at once (`end_now`). A call with another policy
   then gets its last step at its time limit, but not before its hard grace.
4. The ladder also enforces the time limits of runs, because a tool that holds the interpreter stops
   its watcher. A run that the ladder sees for the first time counts as begun after the ladder's last
   check, whatever the database's clock says.
5. A RUNNING row of this worker is closed if its call no longer runs. The proof is a dead process
   (prefork), or that the request is not in `Child.claimed` (threads). If its cancellation was
   requested it becomes CANCELLED, because the tool has provably stopped. Otherwise it is LOST.
6. The thread also writes the worker's heartbeat and takes its turn in the site's supervision. It
   needs no free slot of the pool for that.

Subclasses in `pools/` define the last step, and whether a call still runs.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, When

from mcp_app.celery_adapter import results
from mcp_app.conf import settings
from mcp_app.execution.process.main_database import visit
from mcp_app.execution.process.timers import Timers
from mcp_app.execution.process.watcher import child_address
from mcp_app.execution.stopping import processes
from mcp_app.execution.stopping.orphans import kill_orphans
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.liveness import processes as liveness
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.lifecycle.supervision.idle import SupervisionTurns
from mcp_app.models import Request
from mcp_app.models.utc_date_time import Now
from mcp_app.states import TERMINAL, CancelPolicy, Cause, Status

logger = logging.getLogger(__name__)

DEATH_TIMEOUT_SECONDS = 5.0
"""How long to wait for a killed process, or for the ladder's own thread."""
FIRST_ROUND_SECONDS = 10.0
ORPHAN_INTERVAL_SECONDS = 5.0
ENDING_INTERVAL_SECONDS = 0.5


class Pool(Protocol):
    """What the ladder needs to know of Celery's pool."""

    def pids(self) -> set[int]:
        """Return the process ids of the pool."""

    def holds_work(self) -> bool:
        """Return whether the worker has a Celery task that has not ended."""


class Ladder(ABC):
    """Takes last steps, supervises and writes heartbeats for one worker, on the thread of its timers.

    `start` and `stop` are called by the main thread. Private methods run on the ladder's thread.
    """

    last_step_policies = frozenset({CancelPolicy.KILL})
    """The cancel policies that allow a last step when the hard grace is over."""
    lost_message: str
    """The error message of a call that was lost."""

    def __init__(self, identity: Identity, pool: Pool) -> None:
        self._identity = identity
        self._pool = pool
        self._timers = Timers("mcp-ladder", _visit_with_liveness)
        self._rounds = SupervisionTurns(partial(rounds.take_turn, identity, self._beat_during_round), pool.holds_work)
        self._last_beat_at = float("-inf")
        self._scheduled: set[UUID] = set()
        """The requests whose last step is scheduled."""
        self._cancelled_ids: SimpleQueue[UUID] = SimpleQueue()
        self._allowed_policies = set(self.last_step_policies)
        self._ending = False
        self._due_at: dict[tuple[UUID, int], float] = {}
        """When the time limit of each run passes (`time.monotonic`), by request and input round."""
        self._limits_checked_at = time.monotonic()
        self.consumed_queues: Callable[[], list[str]] = list
        """Returns the queues that the worker consumes. The heartbeat stores them."""

    def start(self) -> None:
        """Start the thread, and wait for the first round of supervision, at most `FIRST_ROUND_SECONDS`.

        The round closes requests whose clients are gone, before this worker can claim them.
        """
        self.every(settings.HEARTBEAT_INTERVAL, self._beat)
        self.every(settings.SUPERVISION_INTERVAL, self._supervise)
        first_round_is_over = threading.Event()
        self.soon(first_round_is_over.set)
        self.every(ORPHAN_INTERVAL_SECONDS, kill_orphans)
        self._timers.start()
        if not first_round_is_over.wait(FIRST_ROUND_SECONDS):
            logger.warning(
                "the first round of supervision is taking long; the worker accepts calls before the round has ended"
            )

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` soon and then at intervals, each time in a visit to the database. Any thread."""
        self._timers.every(seconds, action)

    def drain(self) -> None:
        """Let calls end for `DRAIN_SECONDS`, because the worker ends. Then cancel those that still run.

        Safe in any thread and in signal handlers.
        """
        self._timers.after(settings.DRAIN_SECONDS, lambda: self._end_calls({CancelPolicy.INTERRUPT}))

    def end_now(self) -> None:
        """Cancel all calls, because the worker ends, and take the last step after the hard grace of each.

        Safe in any thread and in signal handlers.
        """
        self._timers.after(0, lambda: self._end_calls(set(CancelPolicy)))

    def soon(self, action: Callable[[], None]) -> None:
        """Call `action` once, in a visit to the database. Any thread."""
        self._timers.after(0, action)

    def stop(self) -> None:
        """Kill child processes that still run, close the rows of calls that have stopped, and mark the worker so."""
        self._timers.stop(DEATH_TIMEOUT_SECONDS)
        with visit():
            for row in self._mine():
                processes.kill_child(row.worker_pid, row.pk)
                self._close_stopped(row.pk)
            liveness.stop(self._identity)

    def cancel_requested(self, request_id: UUID) -> None:
        """Wake the watchers for a recorded cancellation, and schedule the last step if it may have one. Any thread."""
        for pid in self._pool.pids():
            wakeups.hint(child_address(self._identity.boot_id, pid), request_id.bytes)
        self._cancelled_ids.put(request_id)
        self._timers.after(0, self._schedule_collected_steps)

    def overdue(self, request_id: UUID, input_round: int) -> None:
        """Cancel a run whose time limit has passed, as its process reports. Any thread."""
        self._timers.after(0, lambda: self._cancel_overdue(request_id, input_round))

    def process_ends(self, request_id: UUID) -> None:
        """Cancel a request because the process that runs it must end. Any thread."""
        self._timers.after(0, lambda: self._cancel_for_shutdown(self._mine_of([request_id])))

    def child_lost(self, request_id: UUID) -> None:
        """Close the row of a request whose process is gone, as Celery reports. Any thread."""
        self._timers.after(0, lambda: self._close_stopped(request_id))

    def call_with_ended(self, request_ids: Collection[UUID], action: Callable[[list[UUID]], None]) -> None:
        """Call `action` on the ladder's thread with the ids of requests that have ended. Any thread."""
        ended = Request.objects.filter(pk__in=request_ids, status__in=TERMINAL)
        self._timers.after(0, lambda: action(list(ended.values_list("pk", flat=True))))

    def message_rejected(self, request_id: UUID, why: str) -> None:
        """Fail a queued request whose message cannot be read. Any thread."""
        self._timers.after(0, partial(self._fail_queued, request_id, why))

    @property
    def is_idle(self) -> bool:
        """Whether the last round of supervision found nothing to do on the whole site."""
        return self._rounds.is_resting

    def _beat(self) -> None:
        if self._rounds.is_beat_due(self._last_beat_at):
            began_at = time.monotonic()
            liveness.beat(self._identity, self.consumed_queues())
            self._last_beat_at = began_at

    def _beat_during_round(self) -> None:
        """Write a heartbeat if one is due: a round can take longer than the heartbeat interval."""
        if time.monotonic() - self._last_beat_at > settings.HEARTBEAT_INTERVAL:
            self._beat()

    def _supervise(self) -> None:
        if self._rounds.take():
            self._cancel_runs_at_their_limit()
            self._schedule_last_steps(self._mine())
            self._close_abandoned_rows()

    def _mine(self) -> QuerySet[Request]:
        return Request.objects.filter(self._is_mine)

    def _mine_of(self, request_ids: Iterable[UUID]) -> QuerySet[Request]:
        """Return the rows of this worker among these requests.

        The other conditions are inside a `CASE`, so that the database uses the index of the primary
        key and not that of statuses.
        """
        return Request.objects.filter(Case(When(self._is_mine, then=True), default=False), pk__in=request_ids)

    @property
    def _is_mine(self) -> Q:
        return Q(status=Status.RUNNING, worker=self._identity.boot_id)

    def _cancel_overdue(self, request_id: UUID, input_round: int) -> None:
        rounds.cancel_at_limit(self._mine_of([request_id]).filter(input_round=input_round))

    def _cancel_runs_at_their_limit(self) -> None:
        """Cancel runs whose time limit has passed, measured with this process's own clock."""
        checked_at, self._limits_checked_at = self._limits_checked_at, time.monotonic()
        known, self._due_at = self._due_at, {}
        columns = ("input_round", "time_limit", "caller_limit", "queued_at", "claimed_at")
        for row in self._mine().only(*columns).annotate(ran_for=Now() - F("claimed_at")):
            # Of a new run: it has begun since the last check, whatever the database's clock says.
            ran_for = min(max(0.0, row.ran_for.total_seconds()), self._limits_checked_at - checked_at)
            run = (row.pk, row.input_round)
            self._due_at[run] = known.get(run, self._limits_checked_at - ran_for + row.run_limit)
        for (request_id, input_round), due in self._due_at.items():
            if due <= self._limits_checked_at:
                self._cancel_overdue(request_id, input_round)

    def _end_calls(self, policies: set[CancelPolicy]) -> None:
        """Keep cancelling all calls until the worker has ended, and allow last steps for these policies as well."""
        self._allowed_policies |= policies
        # Steps are scheduled anew, under the wider policies. One may then be taken twice.
        self._scheduled.clear()
        if not self._ending:
            self._ending = True
            self.every(ENDING_INTERVAL_SECONDS, lambda: self._cancel_for_shutdown(self._mine()))

    def _cancel_for_shutdown(self, running: QuerySet[Request]) -> None:
        rows = dict(running.values_list("pk", "cancel_requested_at"))
        not_cancelled = [pk for pk, requested_at in rows.items() if requested_at is None]
        cancellation.sweep(
            CancellationRequest(pk, Cause.SHUTDOWN, SYSTEM, "its worker is shutting down") for pk in not_cancelled
        )
        for request_id in rows:
            # A main thread that waits for its pool does not receive the control commands of these cancellations.
            self.cancel_requested(request_id)

    def _schedule_collected_steps(self) -> None:
        """Schedule the last steps of the requests that `cancel_requested` has collected.

        One query is used, so that heartbeats are not delayed.
        """
        ids: set[UUID] = set()
        with suppress(Empty):
            while True:
                ids.add(self._cancelled_ids.get_nowait())
        if ids:
            self._schedule_last_steps(self._mine_of(ids))

    def _schedule_last_steps(self, among: QuerySet[Request]) -> None:
        """Schedule the last step of each cancelled call among these rows.

        While the worker ends, a call whose policy is not among the allowed ones gets it at its time limit.
        """
        rows = among.filter(cancel_requested_at__isnull=False)
        if not self._ending:
            rows = rows.filter(cancel_policy__in=self._allowed_policies)
        for row in rows.annotate(cancelled_for=Now() - F("cancel_requested_at")):
            if row.pk in self._scheduled:
                continue
            self._scheduled.add(row.pk)
            # At most the grace itself, in case the database's clock was set back.
            wait = row.hard_grace - max(0.0, row.cancelled_for.total_seconds())
            if row.cancel_policy not in self._allowed_policies:
                limit_at = self._due_at.get((row.pk, row.input_round), time.monotonic() + row.run_limit)
                wait = max(wait, limit_at - time.monotonic())
            self._timers.after(wait, partial(self._run_last_step, row))

    def _run_last_step(self, row: Request) -> None:
        self._scheduled.discard(row.pk)  # first, so that supervision schedules a step that fails again
        self._take_last_step(row)

    def _fail_queued(self, request_id: UUID, why: str) -> None:
        if Request.objects.filter(pk=request_id, status=Status.QUEUED).exists():
            error = {"cause": "message", "message": f"its message cannot be read: {why}"[:500]}
            transitions.finish(request_id, Status.FAILED, error=error)

    @abstractmethod
    def _take_last_step(self, row: Request) -> None:
        """Do what this pool allows against a call that has outlived its hard grace.

        `row` was read when the step was scheduled; the call may have ended since.
        """

    @abstractmethod
    def _close_abandoned_rows(self) -> None:
        """Close the RUNNING rows of this worker whose runs are over."""

    @abstractmethod
    def _is_running_here(self, row: Request) -> bool:
        """Return whether a process or thread of this worker may still write the row."""

    def _close_stopped(self, request_id: UUID) -> None:
        """Close the row of a call that no longer runs, as CANCELLED if that was requested, else as LOST."""
        row = self._mine_of([request_id]).first()
        if row is None or self._is_running_here(row):
            return  # it has ended, or another process runs it: the dead one had a second message of the same request
        all_killed = processes.kill_all(request_id)
        if row.cancel_requested_at is None:
            rounds.mark_lost(request_id, self.lost_message)
            return
        programs = "the programs that it had started were killed if they could be found"
        error = {"cause": "lost", "message": f"{self.lost_message} after the cancellation; {programs}"}
        if transitions.finish(request_id, Status.CANCELLED, fenced=row.killing, error=error) is not None:
            results.store_revoked(request_id, self.lost_message)
            if not all_killed:
                transitions.note_leftovers(request_id)


@contextmanager
def _visit_with_liveness() -> Iterator[None]:
    """Visit the database, and suspend the detection of silent processes if the visit is slow.

    While the database is slow, no process can write its heartbeat.
    """
    with visit(), liveness.listening():
        yield
