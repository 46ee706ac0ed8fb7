"""Celery's prefork pool: its processes, their ends, and the kill of one."""

import logging
import os
import signal
import tempfile
from contextlib import suppress
from multiprocessing import current_process
from typing import Any, Final
from uuid import UUID

from mcp_app.celery_adapter import consumer
from mcp_app.celery_adapter.request_class import ToolRequest

logger = logging.getLogger(__name__)

MAINTAIN_INTERVAL_SECONDS: Final = 0.1


def leave_no_temporary_folder() -> None:
    """Make the pool's shared memory in the system's temporary folder. Call it before the pool is
    made.

    The memory is a file without a name. By default it is made in a new folder, which a worker that
    was killed could not remove.
    """
    vars(current_process())["_config"].setdefault("tempdir", tempfile.gettempdir())


class PreforkPool:
    """Celery's prefork pool, as the ladder uses it."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def pids(self) -> set[int]:
        pool = getattr(self._worker.pool, "_pool", None)
        return {process.pid for process in list(pool._pool)} if pool is not None else set()

    def holds_work(self) -> bool:
        return consumer.holds_work()

    def terminate(self, request_id: UUID, pid: int) -> None:
        """Kill the stopped process `pid` (SIGKILL), and let Celery take its end as intended."""
        # The signal does nothing to a stopped process, but the pool marks it. It must be marked
        # before the kill: the main thread may see the death first, and would report it as a crash.
        self._worker.pool.terminate_job(pid, signal.SIGSTOP)
        with suppress(ProcessLookupError):
            # Kill it here: Celery may not know yet that the process runs this request.
            os.kill(pid, signal.SIGKILL)
        request = _active(request_id, pid)
        if request is not None:
            try:
                request.terminate(self._worker.pool, signal="KILL")
            except Exception:
                logger.exception("Celery was not informed that request %s was killed", request_id)


def _active(request_id: UUID, pid: int) -> ToolRequest | None:
    """Return Celery's object for a request that this process runs, or `None`.

    Another process may have another message of the same request.
    """
    ours = [each for each in consumer.active() if isinstance(each, ToolRequest) and each.worker_pid == pid]
    return next((each for each in ours if each.id == str(request_id)), None)


def watch_processes(worker: Any) -> None:
    """Replace a process of the pool, and fail its call, as soon as the process ends.

    Celery watches a pipe that each process holds open, and checks the pool when the pipe closes.
    This misses deaths: the pipe closes shortly before the process can be waited for, and it stays
    open while a fork of the process lives. Such a death is found by a timer, up to 5 s later. So
    the event loop also watches a pidfd of each process. On systems other than Linux, a timer checks
    the pool every MAINTAIN_INTERVAL_SECONDS instead.
    """
    hub = getattr(worker, "hub", None)
    if hub is None:  # without an event loop, threads of the pool check every 0.8 s
        return
    if has_process_descriptors():
        hub.on_tick.add(_ProcessWatch(worker, hub))
    else:
        hub.call_repeatedly(MAINTAIN_INTERVAL_SECONDS, worker.pool.maintain_pool)


class _ProcessWatch:
    """Called in each turn of the event loop: watches the processes that are new.

    The loop forgets its readers when the broker is lost, so missing ones are added again.
    """

    def __init__(self, worker: Any, hub: Any) -> None:
        self._prefork = PreforkPool(worker)
        self._maintain_pool = worker.pool.maintain_pool
        self._hub = hub
        self._known: set[int] = set()
        self._descriptors: dict[int, int] = {}

    def __call__(self) -> None:
        pids = self._prefork.pids()
        for pid in pids - self._known:
            with suppress(ProcessLookupError):  # the pool has noticed its end
                self._descriptors[pid] = os.pidfd_open(pid)
        self._known = pids
        for pid in self._descriptors.keys() - pids:
            self._forget(pid)
        for pid, descriptor in self._descriptors.items():
            if descriptor not in self._hub.readers:
                self._hub.add_reader(descriptor, self._on_end, pid)

    def _on_end(self, pid: int) -> None:
        self._forget(pid)  # only once: with a closed pool the descriptor would stay readable
        self._maintain_pool()

    def _forget(self, pid: int) -> None:
        descriptor = self._descriptors.pop(pid)
        self._hub.remove_reader(descriptor)
        os.close(descriptor)


def has_process_descriptors() -> bool:
    """Return whether the system has pidfds."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True
