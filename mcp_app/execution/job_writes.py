"""A job reaches its process in the turn of the worker's loop in which it came, or in which that process became free.

Celery's prefork pool first has each idle process' pipe watched for room, in the turn that follows, and strikes that out
again in every turn that has nothing to write: two system calls for each process. On SQLite quick calls wait a moment
for the process that runs others, as far as it keeps up: of two that write in turns each needs more. Refuses to touch a
pool that is made otherwise, and to write by itself: the pool does, by the function that it gives its event loop.
"""

import logging
import math
import time
from typing import Any, Final
from weakref import WeakKeyDictionary

from celery.concurrency.asynpool import SCHED_STRATEGY_FAIR

from mcp_app import databases
from mcp_app.lifecycle.publishing import RUN_BATCH_TASK

logger = logging.getLogger(__name__)

PATIENCE: Final = 0.01
"""Seconds for which, on SQLite, calls that came in one message wait for the process that runs others of such a one."""


class JobWrites:
    """Has a pool of processes write what it was given; in the thread of its event loop.

    `patience`: how long quick calls may wait, in seconds.
    """

    def __init__(self, pool: Any, hub: Any, patience: float) -> None:
        self._pool = pool
        self._hub = hub
        self._patience = patience
        self._came_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        """Of the jobs that are several quick calls, in seconds of the monotonic clock."""
        self._is_to_look = False

    def took(self, job: Any, task: str) -> None:
        """The pool has taken this job in."""
        if task == RUN_BATCH_TASK:
            self._came_at[job] = time.monotonic()

    @property
    def _idle(self) -> set[int]:
        """The pipes of processes that have nothing to do."""
        idle: set[int] = self._pool._all_inqueues - self._pool._busy_workers - self._pool._active_writes
        return idle

    @property
    def _may_wait(self) -> bool:
        """Whether all that is to be written are quick calls, and others run since a moment ago."""
        waiting, now = self._pool.outbound_buffer, time.monotonic()
        if any(self._came_at.get(job, -math.inf) <= now - self._patience for job in waiting):
            return False
        running = (came_at for job, came_at in self._came_at.items() if not job.ready() and job not in waiting)
        return any(came_at > now - 2 * self._patience for came_at in running)

    def write(self) -> None:
        """Give idle processes a job each, as far as there are any that do not wait."""
        waiting = self._pool.outbound_buffer
        while (left := len(waiting)) and (idle := self._idle):
            if self._may_wait:
                self._look_later()
                return
            self._hub.consolidate_callback([min(idle)])
            if len(waiting) == left:
                return

    def on_tick(self) -> None:
        """In each turn; what cannot be written at once is the pool's to see to."""
        self.write()
        is_watched = not self._pool._all_inqueues.isdisjoint(self._hub.writers)
        if is_watched or (self._pool.outbound_buffer and self._idle and not self._may_wait):
            self._pool.on_poll_start()

    def _look_later(self) -> None:
        """When nothing waits any longer, should nothing have been done by then."""
        if not self._is_to_look:
            self._is_to_look = True
            self._hub.call_later(self._patience, self._look)

    def _look(self) -> None:
        self._is_to_look = False
        self.write()


def install(worker: Any) -> None:
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
    patience = PATIENCE if databases.connection().vendor == "sqlite" else 0.0
    writes, apply = JobWrites(pool._pool, hub, patience), pool.on_apply

    def apply_and_write(target: Any, args: Any = None, *others: Any, **options: Any) -> Any:
        job = apply(target, args, *others, **options)
        writes.took(job, args[0] if args else "")
        writes.write()
        return job

    hub.on_tick.remove(pool._pool.on_poll_start)
    hub.on_tick.add(writes.on_tick)
    pool.on_apply = apply_and_write
