"""A job reaches its process in the turn of the worker's loop in which it came, or in which that process became free.

Celery's prefork pool first has each idle process' pipe watched for room, in the turn that follows, and strikes that out
again in every turn that has nothing to write: two system calls for each process. Refuses to touch a pool that is made
otherwise, and to write by itself: the pool does, by the function that it gives its event loop.
"""

import logging
from typing import Any

from celery.concurrency.asynpool import SCHED_STRATEGY_FAIR

logger = logging.getLogger(__name__)


class JobWrites:
    """Has a pool of processes write what it was given; in the thread of its event loop."""

    def __init__(self, pool: Any, hub: Any) -> None:
        self._pool = pool
        self._hub = hub

    @property
    def _idle(self) -> set[int]:
        """The pipes of processes that have nothing to do."""
        idle: set[int] = self._pool._all_inqueues - self._pool._busy_workers - self._pool._active_writes
        return idle

    def write(self) -> None:
        """Give each idle process a job, as far as there are any."""
        if (jobs := len(self._pool.outbound_buffer)) and (idle := self._idle):
            self._hub.consolidate_callback(list(idle)[:jobs])

    def on_tick(self) -> None:
        """In each turn; what cannot be written at once is the pool's to see to."""
        self.write()
        is_watched = not self._pool._all_inqueues.isdisjoint(self._hub.writers)
        if is_watched or (self._pool.outbound_buffer and self._idle):
            self._pool.on_poll_start()


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
    writes, apply = JobWrites(pool._pool, hub), pool.on_apply

    def apply_and_write(*args: Any, **options: Any) -> Any:
        result = apply(*args, **options)
        writes.write()
        return result

    hub.on_tick.remove(pool._pool.on_poll_start)
    hub.on_tick.add(writes.on_tick)
    pool.on_apply = apply_and_write
