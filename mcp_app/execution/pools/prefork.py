"""The last step in a prefork pool: kill the process that runs the call, and everything it started.

The kill must not hit the next call of that process, and must not miss a process that is just being
started. So it takes these steps, and each of them can be repeated:

1. Raise the fence: set `killing` in the row. From then on the process itself cannot close the row,
   and waits in `runner.store_ending`.
2. Stop the process (SIGSTOP), and read the fence again. If the row was closed meanwhile, continue
   the process (SIGCONT) and give up.
3. Kill all descendants and all processes with the call's marker. The process itself is still there,
   so it adopts orphans.
4. Kill the process, and let Celery take its end as intended.
5. Wait until it is gone, then close the row as CANCELLED.
"""

import logging
import os
import signal
import time
from contextlib import suppress
from functools import partial
from uuid import UUID

from mcp_app.celery_adapter import results
from mcp_app.celery_adapter.prefork import PreforkPool
from mcp_app.execution.process.ladder import DEATH_TIMEOUT_SECONDS, Ladder
from mcp_app.execution.stopping import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)


class PreforkLadder(Ladder):
    """The ladder of a worker whose tools run in processes of their own."""

    lost_message = "its worker process died"

    def __init__(self, identity: Identity, pool: PreforkPool) -> None:
        super().__init__(identity, pool)
        self._children = pool

    def _take_last_step(self, row: Request) -> None:
        self._kill(row)

    def _kill(self, row: Request) -> None:
        pid = row.worker_pid
        if pid is None or not self._raise_fence(row.pk):
            return
        if pid in self._pool.pids():
            if not self._hold(row.pk, pid):
                return
            # Kill its descendants first: while the process exists, even stopped, it adopts orphans.
            gone = processes.kill_all(row.pk, partial(processes.descendants, pid))
            self._children.terminate(row.pk, pid)
        else:
            gone = processes.kill_all(row.pk)
        self._await_death(pid)
        transitions.finish(row.pk, Status.CANCELLED, worker=self._identity.boot_id, fenced=True)
        results.store_revoked(row.pk, "killed")
        if not gone:
            transitions.note_leftovers(row.pk)
        logger.warning("request %s outlived its hard grace and was killed (process %d)", row.pk, pid)

    def _hold(self, request_id: UUID, pid: int) -> bool:
        """Stop the process, so that it starts nothing while its descendants are collected.

        Return `False` if it has left the call. It waits behind the fence for a limited time only,
        and this process may have been delayed for longer.
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
        """Return whether the kill may go on: it begins now, or an earlier one was not completed."""
        begun = transitions.begin_kill(request_id, worker=self._identity.boot_id)
        return begun or self._mine_of([request_id]).filter(killing=True).exists()

    def _await_death(self, pid: int) -> None:
        give_up_at = time.monotonic() + DEATH_TIMEOUT_SECONDS
        while pid in self._pool.pids() and processes.is_alive(pid):
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"process {pid} survived SIGKILL for {DEATH_TIMEOUT_SECONDS:g} s")
            time.sleep(0.002)  # the pool reaps its processes, but sends no notice

    def _close_abandoned_rows(self) -> None:
        """Close rows whose process is dead.

        Celery reports that, but not while it waits for its broker.
        """
        for row in list(self._mine()):
            if not self._is_running_here(row):
                self._close_stopped(row.pk)

    def _is_running_here(self, row: Request) -> bool:
        return row.worker_pid in self._pool.pids() and processes.is_alive(row.worker_pid)
