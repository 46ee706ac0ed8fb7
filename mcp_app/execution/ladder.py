"""The worker's timers and when the ladder's last step is due: a thread of the worker's main process.

It needs no free slot and survives a busy pool: beats this worker's heart, supervises, closes rows that nobody runs.
Refuses to know a pool: what its last step is, and what runs a row, `prefork` and `threads` say.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.execution import processes
from mcp_app.execution.left_behind import LeftBehind
from mcp_app.execution.main_database import visit
from mcp_app.execution.orphans import kill_orphans
from mcp_app.execution.timers import Timers
from mcp_app.execution.watcher import child_address
from mcp_app.lifecycle import cancellation, celery_results, supervision, transitions, wakeups
from mcp_app.lifecycle import processes as liveness
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.lifecycle.processes import Identity
from mcp_app.lifecycle.quiet import Rounds
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Cause, Status

logger = logging.getLogger(__name__)

DEATH_TIMEOUT = 5.0
FIRST_LOOK_SECONDS = 10.0
ORPHAN_INTERVAL = 5.0
ENDING_INTERVAL = 0.5


class Pool(Protocol):
    """What the ladder asks of Celery's pool."""

    def pids(self) -> set[int]:
        """Its live processes."""

    def holds_work(self) -> bool:
        """Whether the worker was sent a task that has not ended."""


class Ladder(ABC):
    """Timers of one worker's main process. All but `start`, `every`, `soon`, `stop` and hints runs on its thread."""

    forced = frozenset({CancelPolicy.KILL})
    """The policies under which there is a last step when the hard grace is over."""
    loss: str
    """What became of a call that nobody runs and whose row does not say how it ended."""

    def __init__(self, identity: Identity, pool: Pool) -> None:
        self._identity = identity
        self._pool = pool
        self._timers = Timers("mcp-ladder", _heard_visit)
        self.left_behind = LeftBehind(self._timers.after)
        self._rounds = Rounds(partial(supervision.take_turn, identity, self._beat_meanwhile), pool.holds_work)
        self._beaten_at = float("-inf")
        self._last_steps: set[UUID] = set()
        self._asked_to_stop: SimpleQueue[UUID] = SimpleQueue()
        self._forced_policies = set(self.forced)
        self._ending = False

    def start(self) -> None:
        """Begin, and wait for the first round: what nobody waits for any more is closed before a worker takes it."""
        self.every(settings.HEARTBEAT_INTERVAL, self._beat)
        self.every(settings.SUPERVISION_INTERVAL, self._supervise)
        looked = threading.Event()
        self.soon(looked.set)
        self.every(ORPHAN_INTERVAL, kill_orphans)
        self._timers.start()
        if not looked.wait(FIRST_LOOK_SECONDS):
            logger.warning("the first round of supervision takes long; calls are taken before it is over")

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something now and then, on the ladder's thread, in a visit to the database."""
        self._timers.every(seconds, action)

    def drain(self) -> None:
        """The worker is to end once its calls have: those that have not after `DRAIN_SECONDS` are cancelled.

        From any thread, and from signal handlers.
        """
        self._timers.after(settings.DRAIN_SECONDS, lambda: self._end_calls({CancelPolicy.INTERRUPT}))

    def end_now(self) -> None:
        """The worker is to end: its calls are cancelled at once, and killed after their grace, whatever their policy.

        From any thread, and from signal handlers.
        """
        self._timers.after(0, lambda: self._end_calls(set(CancelPolicy)))

    def soon(self, action: Callable[[], None]) -> None:
        """Do something once, as `every` does. From any thread."""
        self._timers.after(0, action)

    def stop(self) -> None:
        """Take the last word: this worker ends, and nothing that it ran is left or looks as if it went on."""
        self._timers.stop(DEATH_TIMEOUT)
        with visit():
            for row in self._mine():
                processes.kill_child(row.worker_pid)
                self._close_lost(row.pk)
            liveness.stop(self._identity)

    def cancel_requested(self, request_id: UUID) -> None:
        """A cancellation was recorded: wake the children at once, and see to the kill. From any thread."""
        for pid in self._pool.pids():
            wakeups.hint(child_address(self._identity.boot_id, pid), request_id.bytes)
        self._asked_to_stop.put(request_id)
        self._timers.after(0, self._look_at_those_asked_to_stop)

    def overdue(self, request_id: UUID, input_round: int) -> None:
        """The time limit of a run has passed, by its own process's clock. From any thread."""
        self._timers.after(0, lambda: self._cancel_overdue(request_id, input_round))

    def process_ends(self, request_id: UUID) -> None:
        """The process that runs this request is to end, and the request has had its time. From any thread."""
        self._timers.after(0, lambda: self._cancel_for_shutdown(self._mine_of([request_id])))

    def child_lost(self, request_id: UUID) -> None:
        """Celery found that the child running this request is gone. From any thread."""
        self._timers.after(0, lambda: self._close_lost(request_id))

    @property
    def rests(self) -> bool:
        """Whether nothing happens on the site, as far as it was looked at."""
        return self._rounds.rests

    def _beat(self) -> None:
        if self._rounds.is_beat_due(self._beaten_at):
            began_at = time.monotonic()
            liveness.beat(self._identity)
            self._beaten_at = began_at

    def _beat_meanwhile(self) -> None:
        """In a round, which may take longer than a heart may be silent."""
        if time.monotonic() - self._beaten_at > settings.HEARTBEAT_INTERVAL:
            self._beat()

    def _supervise(self) -> None:
        if self._rounds.take():
            self._schedule_last_steps(self._mine())
            self._close_rows_that_nobody_runs()

    def _mine(self) -> QuerySet[Request]:
        return Request.objects.filter(self._is_mine)

    def _mine_of(self, request_ids: Iterable[UUID]) -> QuerySet[Request]:
        """By their keys: in a `CASE` the rest is no index's, of which a database might choose that of statuses."""
        return Request.objects.filter(Case(When(self._is_mine, then=True), default=False), pk__in=request_ids)

    @property
    def _is_mine(self) -> Q:
        return Q(status=Status.RUNNING, worker=self._identity.boot_id)

    def _cancel_overdue(self, request_id: UUID, input_round: int) -> None:
        supervision.cancel_at_limit(self._mine_of([request_id]).filter(input_round=input_round))

    def _end_calls(self, forced: set[CancelPolicy]) -> None:
        """From now on cancel what runs, also what was claimed a moment ago, and force tools of these policies, too."""
        self._forced_policies |= forced
        self._last_steps.clear()
        if not self._ending:
            self._ending = True
            self.every(ENDING_INTERVAL, lambda: self._cancel_for_shutdown(self._mine()))

    def _cancel_for_shutdown(self, running: QuerySet[Request]) -> None:
        rows = dict(running.values_list("pk", "cancel_requested_at"))
        unasked = [pk for pk, asked_at in rows.items() if asked_at is None]
        cancellation.sweep(Ask(pk, Cause.SHUTDOWN, SYSTEM, "its worker shuts down") for pk in unasked)
        for request_id in rows:
            # Told here, too: a main thread that waits for the pool to end reads no control command.
            self.cancel_requested(request_id)

    def _look_at_those_asked_to_stop(self) -> None:
        """At all of them at once: those that come together must not keep the heart from beating."""
        asked: set[UUID] = set()
        with suppress(Empty):
            while True:
                asked.add(self._asked_to_stop.get_nowait())
        if asked:
            self._schedule_last_steps(self._mine_of(asked))

    def _schedule_last_steps(self, among: QuerySet[Request]) -> None:
        """Where the worker ends, a policy that spares a tool holds until its time limit: nothing outlives both."""
        rows = among.filter(cancel_requested_at__isnull=False)
        if not self._ending:
            rows = rows.filter(cancel_policy__in=self._forced_policies)
        for row in rows.annotate(asked_for=Now() - F("cancel_requested_at"), left=F("deadline_at") - Now()):
            if row.pk in self._last_steps:
                continue
            self._last_steps.add(row.pk)
            # At most the grace itself: the database's clock may have been set back.
            wait = row.hard_grace - max(0.0, row.asked_for.total_seconds())
            if row.cancel_policy not in self._forced_policies:
                wait = max(wait, row.left.total_seconds())
            self._timers.after(wait, partial(self._take_last_step, row))

    @abstractmethod
    def _take_last_step(self, row: Request) -> None:
        """What is left to do about a request that outlived its hard grace."""

    @abstractmethod
    def _close_rows_that_nobody_runs(self) -> None:
        """Close those of this worker's rows whose run is over without having said so."""

    @abstractmethod
    def _is_run(self, row: Request) -> bool:
        """Whether the row, one of this worker's, may still be written by what runs it."""

    def _close_lost(self, request_id: UUID) -> None:
        """If its child is dead a cancelled request is proved stopped; any other is lost."""
        row = self._mine_of([request_id]).first()
        if row is None or self._is_run(row):
            return  # the dead one had another message of it
        processes.kill_all(request_id)
        if row.cancel_requested_at is None:
            supervision.lose(request_id, self.loss)
            return
        error = {"cause": "lost", "message": f"{self.loss} after the cancellation"}
        if transitions.finish(request_id, Status.CANCELLED, fenced=row.killing, error=error) is not None:
            celery_results.tell_stopped(request_id, self.loss)


@contextmanager
def _heard_visit() -> Iterator[None]:
    """A visit that, where it takes too long, shows that nobody could be heard meanwhile."""
    with visit(), liveness.listening():
        yield
