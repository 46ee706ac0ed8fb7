"""The prefork pool: a child that outlives its call's hard grace is killed, with all that it started.

Only behind the fence in the row, so that no kill hits the next call. Refuses to take a child for dead that still lives.
"""

import logging
import os
import signal
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

from celery.worker import state as worker_state
from psutil import Process

from mcp_app.execution import messages, processes
from mcp_app.execution.ladder import DEATH_TIMEOUT, Ladder
from mcp_app.execution.messages import ToolRequest
from mcp_app.lifecycle import celery_results, transitions
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)


class PreforkPool:
    """Celery's prefork pool, as its ladder sees it."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def pids(self) -> set[int]:
        pool = getattr(self._worker.pool, "_pool", None)
        return {child.pid for child in list(pool._pool)} if pool is not None else set()

    def holds_work(self) -> bool:
        return bool(worker_state.reserved_requests)

    def terminate(self, request_id: UUID, pid: int) -> None:
        """SIGKILL the child `pid`, Celery being told that this was meant."""
        for child in list(self._worker.pool._pool._pool):
            if child.pid == pid:
                # Set before the kill: the main thread may see the death first and would call it an accident.
                child._controlled_termination = child._job_terminated = True
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # by ourselves: Celery may not have heard yet that it runs this request
        request = _active(request_id, pid)
        if request is not None:
            try:
                request.terminate(self._worker.pool, signal="KILL")
            except Exception:
                logger.exception("Celery could not be told that request %s was killed", request_id)


def _active(request_id: UUID, pid: int) -> ToolRequest | None:
    """What Celery has of a request that this process runs, if it does. Another may have another message of it."""
    ours = [each for each in messages.active() if isinstance(each, ToolRequest) and each.worker_pid == pid]
    return next((each for each in ours if str(request_id) in each.request_ids), None)


class PreforkLadder(Ladder):
    """The ladder of a worker whose tools run in processes of their own."""

    loss = "its worker process died"

    def __init__(self, identity: Identity, pool: PreforkPool) -> None:
        super().__init__(identity, pool)
        self._children = pool

    def _take_last_step(self, row: Request) -> None:
        self._last_steps.discard(row.pk)
        self._kill(row)

    def _kill(self, row: Request) -> None:
        pid = row.worker_pid
        if pid is None or not self._raise_fence(row.pk):
            return
        tree: set[Process] = set()
        if pid in self._pool.pids():
            if not self._hold(row.pk, pid):
                return
            tree = processes.descendants(pid)
            self._children.terminate(row.pk, pid)
        processes.kill_all(row.pk, tree)
        self._await_death(pid)
        transitions.finish(row.pk, Status.CANCELLED, worker=self._identity.boot_id, fenced=True)
        celery_results.tell_stopped(row.pk, "killed")
        logger.warning("request %s outlived its hard grace and was killed (process %d)", row.pk, pid)

    def _hold(self, request_id: UUID, pid: int) -> bool:
        """Stop the child, so that it starts nothing more while its tree is collected; False when it has moved on.

        It stands still behind the fence for a time only: this process may have been held up for longer.
        """
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        held = False
        try:
            held = bool(self._mine_of([request_id]).filter(killing=True).exists())
        finally:
            if not held:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        return held

    def _raise_fence(self, request_id: UUID) -> bool:
        """Whether the kill may go on: it was begun now, or before and did not come to its end."""
        begun = transitions.begin_kill(request_id, worker=self._identity.boot_id)
        return begun or self._mine_of([request_id]).filter(killing=True).exists()

    def _await_death(self, pid: int) -> None:
        give_up_at = time.monotonic() + DEATH_TIMEOUT
        while pid in self._pool.pids() and processes.is_alive(pid):
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"process {pid} survived SIGKILL for {DEATH_TIMEOUT:g} s")
            time.sleep(0.002)  # the pool reaps its children, and tells nobody of it

    def _close_rows_that_nobody_runs(self) -> None:
        rows = list(self._mine())
        alive = self._pool.pids()  # read after the rows: a child forked in between may have claimed one
        for row in rows:
            if row.worker_pid not in alive:
                self._close_lost(row.pk)

    def _is_run(self, row: Request) -> bool:
        return row.worker_pid in self._pool.pids() and processes.is_alive(row.worker_pid)
