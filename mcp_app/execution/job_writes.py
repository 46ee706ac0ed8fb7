"""A job reaches its process in the turn of the worker's loop in which it came, or in which that process became free.

Celery's prefork pool first has each idle process' pipe watched for room, in the turn that follows, and strikes that out
again in every turn that has nothing to write: two system calls for each process. On SQLite quick calls wait a moment
for the process that runs others, as far as it keeps up: of two that write in turns each needs more. What still waits at
a cold shutdown, or during the soft one before it, in which the loop stands still, is another worker's. Refuses to touch
a pool that is made otherwise, and to write by itself: the pool does, by the function that it gives its event loop.
"""

import logging
import math
import time
from typing import Any, Final
from weakref import WeakKeyDictionary

from celery.concurrency.asynpool import SCHED_STRATEGY_FAIR
from celery.worker import state as worker_state

from mcp_app import databases
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK

logger = logging.getLogger(__name__)

PATIENCE: Final = 0.01
"""Seconds for which, on SQLite, calls that came in one message wait for the process that runs others of such a one."""


class JobWrites:
    """Has a pool of processes write what it was given; in the thread of its event loop.

    `slots`: the worker's semaphore, which lets about as many jobs into the pool as it has processes. `patience`: how
    long quick calls may wait in there, in seconds.
    """

    def __init__(self, pool: Any, hub: Any, slots: Any, patience: float) -> None:
        self._pool = pool
        self._hub = hub
        self._slots = slots
        self._patience = patience
        self._came_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        """Of the jobs that are several quick calls, in seconds of the monotonic clock."""
        self._is_to_look = False

    def took(self, job: Any, task: str) -> None:
        """The pool has taken this job in; or, as it ends, none."""
        if job is not None and task == RUN_BATCH_TASK and self._patience:
            self._came_at[job] = time.monotonic()
            self._look_later(self._patience)

    @property
    def _idle(self) -> set[int]:
        """The pipes of processes that have nothing to do."""
        idle: set[int] = self._pool._all_inqueues - self._pool._busy_workers - self._pool._active_writes
        return idle

    @property
    def _may_wait(self) -> bool:
        """Whether all that is to be written are quick calls, a process is free for each, nothing waits for their slots,
        and others run since a moment ago."""
        waiting, now = self._pool.outbound_buffer, time.monotonic()
        if not self._patience or self._slots._waiting or len(waiting) > len(self._idle):
            return False
        if any(self._waits_until(job) <= now for job in waiting):
            return False
        running = (came_at for job, came_at in self._came_at.items() if not job.ready() and job not in waiting)
        return any(came_at > now - 2 * self._patience for came_at in running)

    def _waits_until(self, job: Any) -> float:
        """Not one that comes back from a process that was lost."""
        return -math.inf if job._write_to is not None else self._came_at.get(job, -math.inf) + self._patience

    def write(self) -> None:
        """Give idle processes a job each, as far as there are any that do not wait."""
        waiting = self._pool.outbound_buffer
        while (left := len(waiting)) and (idle := self._idle) and not self._may_wait:
            self._hub.consolidate_callback([min(idle)])
            if len(waiting) == left:
                return

    def on_tick(self) -> None:
        """In each turn; what cannot be written at once is the pool's to see to."""
        self.write()
        is_watched = not self._pool._all_inqueues.isdisjoint(self._hub.writers)
        if is_watched or (self._pool.outbound_buffer and self._idle and not self._may_wait):
            self._pool.on_poll_start()

    def before_close(self) -> None:
        """Nothing waits from now on; nor is anything begun only to be killed."""
        self._patience = 0.0
        if worker_state.should_terminate in (None, False):
            self.write()

    def _look_later(self, seconds: float) -> None:
        """When a job waits no longer. Not from `on_tick`: how long the loop may sleep is settled before it."""
        if not self._is_to_look:
            self._is_to_look = True
            self._hub.call_later(seconds, self._look)

    def _look(self) -> None:
        self._is_to_look = False
        if not self._patience:  # once the pool closes, Celery does what is due in another thread
            return
        try:
            self.write()
        finally:
            now = time.monotonic()
            if due := [at for job in self._pool.outbound_buffer if (at := self._waits_until(job)) > now]:
                self._look_later(min(due) - now)


def patience() -> float:
    """Seconds for which quick calls are to wait for the process that runs others, on this site's database."""
    return PATIENCE if databases.connection().vendor == "sqlite" else 0.0


def install(worker: Any, patience: float) -> None:
    """For a worker whose event loop has its pool of processes, where a busy process is given nothing more; another is
    left as it is."""
    pool: Any = worker.pool
    hub: Any = getattr(worker, "hub", None)
    if (
        getattr(pool._pool, "sched_strategy", None) != SCHED_STRATEGY_FAIR
        or pool._pool.on_poll_start not in hub.on_tick
    ):
        logger.debug("jobs are written as Celery does it")
        return
    slots = getattr(worker, "semaphore", None)
    writes = JobWrites(pool._pool, hub, slots, 0.0 if slots is None else patience)
    apply, close = pool.on_apply, pool.on_close

    def apply_and_write(target: Any, args: Any = None, *others: Any, **options: Any) -> Any:
        job = apply(target, args, *others, **options)
        writes.took(job, args[0] if args else "")
        writes.write()
        return job

    def write_and_close() -> None:
        writes.before_close()
        close()

    hub.on_tick.remove(pool._pool.on_poll_start)
    hub.on_tick.add(writes.on_tick)
    pool.on_apply, pool.on_close = apply_and_write, write_and_close
