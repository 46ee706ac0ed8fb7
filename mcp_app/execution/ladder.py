"""The ladder's last step and the worker's timers: a thread of the worker's main process.

It needs no free slot and survives a busy pool: kills what outlives its hard grace, closes rows whose child is gone,
beats this worker's heart and supervises. It alone kills, and only behind the fence in the row.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Now
from psutil import Process

from mcp_app.conf import settings
from mcp_app.execution import processes
from mcp_app.execution.main_database import visit
from mcp_app.execution.watcher import child_address
from mcp_app.lifecycle import processes as liveness
from mcp_app.lifecycle import supervision, transitions, wakeups
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Status

logger = logging.getLogger(__name__)

DEATH_TIMEOUT = 5.0
ORPHAN_INTERVAL = 5.0


class Pool(Protocol):
    """What the ladder asks of Celery's pool."""

    def pids(self) -> set[int]:
        """The pool's live children."""

    def terminate(self, request_id: UUID, pid: int) -> None:
        """SIGKILL the child `pid`, Celery being told that this was meant."""


@dataclass(order=True, slots=True)
class _Timer:
    due: float
    action: Callable[[], None] = field(compare=False)


class Ladder:
    """Timers of one worker's main process. All but `start`, `every`, `stop` and the hints runs on its own thread."""

    def __init__(self, identity: Identity, pool: Pool) -> None:
        self._identity = identity
        self._pool = pool
        self._condition = threading.Condition()
        self._timers: list[_Timer] = []
        self._kills: set[UUID] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="mcp-ladder", daemon=True)

    def start(self) -> None:
        self.every(settings.HEARTBEAT_INTERVAL, self._beat)
        self.every(settings.SUPERVISION_INTERVAL, self._supervise)
        self.every(ORPHAN_INTERVAL, self._kill_orphans)
        self._thread.start()

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something now and then, on the ladder's thread, in a visit to the database."""

        def again() -> None:
            try:
                action()
            finally:
                self._after(seconds, again)

        self._after(0, again)

    def stop(self) -> None:
        """Take the last word: this worker ends by itself."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(DEATH_TIMEOUT)
        with visit():
            liveness.stop(self._identity)

    def cancel_requested(self, request_id: UUID) -> None:
        """A cancellation was recorded: wake the children at once, and see to the kill. From any thread."""
        for pid in self._pool.pids():
            wakeups.hint(child_address(self._identity.boot_id, pid))
        self._after(0, lambda: self._schedule_kill(request_id))

    def overdue(self, request_id: UUID) -> None:
        """The time limit of a running request has passed. From any thread."""
        self._after(0, lambda: self._cancel_overdue(request_id))

    def child_lost(self, request_id: UUID) -> None:
        """Celery found that the child running this request is gone. From any thread."""
        self._after(0, lambda: self._close_lost(request_id))

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            try:
                with visit():
                    timer.action()
            except Exception:
                logger.exception("a step of the ladder failed; it is tried again at the next round")

    def _next(self) -> _Timer | None:
        with self._condition:
            while not self._stopping:
                wait = self._timers[0].due - time.monotonic() if self._timers else None
                if wait is not None and wait <= 0:
                    return heappop(self._timers)
                self._condition.wait(wait)
        return None

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        with self._condition:
            heappush(self._timers, _Timer(time.monotonic() + seconds, action))
            self._condition.notify()

    def _beat(self) -> None:
        liveness.beat(self._identity)

    def _supervise(self) -> None:
        supervision.supervise()
        for row in self._mine().filter(cancel_requested_at__isnull=False):
            self._schedule_kill(row.pk)
        self._close_rows_of_missing_children()

    def _mine(self) -> Any:
        return Request.objects.filter(status=Status.RUNNING, worker=self._identity.boot_id)

    def _cancel_overdue(self, request_id: UUID) -> None:
        supervision.cancel_overdue_requests(self._mine().filter(pk=request_id))

    def _schedule_kill(self, request_id: UUID) -> None:
        row = (
            self._mine()
            .filter(pk=request_id, cancel_requested_at__isnull=False, cancel_policy=CancelPolicy.KILL)
            .annotate(asked_for=Now() - F("cancel_requested_at"))
            .first()
        )
        if row is None or row.pk in self._kills:
            return
        self._kills.add(row.pk)
        self._after(row.hard_grace - row.asked_for.total_seconds(), lambda: self._kill(row))

    def _kill(self, row: Request) -> None:
        self._kills.discard(row.pk)
        pid = row.worker_pid
        if pid is None or not self._raise_fence(row.pk):
            return
        tree: set[Process] = set()
        if pid in self._pool.pids():
            if not self._hold(row.pk, pid):
                return
            tree = processes.descendants(pid)
            self._pool.terminate(row.pk, pid)
        processes.kill_all(row.pk, tree)
        self._await_death(pid)
        transitions.finish(row.pk, Status.CANCELLED, worker=self._identity.boot_id, fenced=True)
        logger.warning("request %s outlived its hard grace and was killed (process %d)", row.pk, pid)

    def _hold(self, request_id: UUID, pid: int) -> bool:
        """Stop the child, so that it starts nothing more while its tree is collected; False when it has moved on.

        It stands still behind the fence for a time only: this process may have been held up for longer.
        """
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        held = False
        try:
            held = bool(self._mine().filter(pk=request_id, killing=True).exists())
        finally:
            if not held:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        return held

    def _raise_fence(self, request_id: UUID) -> bool:
        """Whether the kill may go on: it was begun now, or before and did not come to its end."""
        begun = transitions.begin_kill(request_id, worker=self._identity.boot_id)
        return begun or self._mine().filter(pk=request_id, killing=True).exists()

    def _await_death(self, pid: int) -> None:
        give_up_at = time.monotonic() + DEATH_TIMEOUT
        while pid in self._pool.pids() and processes.is_alive(pid):
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"process {pid} survived SIGKILL for {DEATH_TIMEOUT:g} s")
            time.sleep(0.002)

    def _close_rows_of_missing_children(self) -> None:
        rows = list(self._mine())
        alive = self._pool.pids()  # read after the rows: a child forked in between may have claimed one
        for row in rows:
            if row.worker_pid not in alive:
                self._close_lost(row.pk)

    def _close_lost(self, request_id: UUID) -> None:
        """The child is dead, so a cancelled request is proved stopped; any other is lost."""
        row = self._mine().filter(pk=request_id).first()
        if row is None:
            return
        processes.kill_all(request_id)
        if row.cancel_requested_at is None:
            supervision.lose(request_id, "its worker process died")
            return
        error = {"cause": "lost", "message": "its worker process died after the cancellation"}
        transitions.finish(request_id, Status.CANCELLED, fenced=row.killing, error=error)

    def _kill_orphans(self) -> None:
        """What tools left behind whose worker died as a whole, on this host."""
        marked = processes.owners()
        stopped = Request.objects.filter(pk__in=set(marked.values()), status__in=(Status.LOST, Status.CANCELLED))
        gone = set(stopped.values_list("pk", flat=True))
        for request_id in gone:
            logger.warning("killing what request %s left behind", request_id)
            processes.kill_all(request_id)
