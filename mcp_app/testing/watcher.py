"""The watcher of a test's process: it stops a call if the test cancels it, or after its time limit.

It has a thread of its own, because the tool occupies the test's thread. It reads no rows, because its database
connection might not see them. The stages, grace periods and the interrupt are a worker's. It never kills, because
that would end the test's process.
"""

from functools import partial
from queue import SimpleQueue
from uuid import UUID

from mcp_app.execution.process.watcher import Running, Watcher, child_address
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping.termination import Termination
from mcp_app.lifecycle.audit.attempts import SYSTEM, Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.states import CancelPolicy, Cause, Stage

CLIENT = Actor("mcp_client")


class InProcessWatcher(Watcher):
    """A watcher that is notified, instead of polling rows."""

    def __init__(self, worker: Identity, pid: int, recorder: Recorder, termination: Termination) -> None:
        super().__init__(worker, pid, recorder, termination)
        self._address = child_address(worker.boot_id, pid)
        self._told: SimpleQueue[Running] = SimpleQueue()
        self._asks: dict[UUID, CancellationRequest] = {}
        self.delays: dict[UUID, float] = {}
        """By request: seconds after which it is cancelled, from the start of its run."""
        self.overdue: set[UUID] = set()
        """Calls that a worker would have killed by now."""

    def begin(self, running: Running) -> None:
        if (delay := self.delays.get(running.row.pk)) is not None:
            running.after(delay, partial(self._stop, Cause.CLIENT, CLIENT))
        super().begin(running)
        wakeups.hint(self._address)

    def cancel(self, reason: str) -> None:
        """Cancel the running call and the calls it started. Raises RuntimeError if no call is running."""
        if not (running := list(self.running().values())):
            raise RuntimeError("No call is running. Cancel it from a function that the tool calls, or use cancel_when.")
        outermost = running[0]
        self._ask(outermost, Cause.CLIENT, CLIENT, reason)
        for each in running:
            each.reach(Stage.COOPERATIVE)  # before it knows: it may end before the watcher's thread has its turn
            each.context.cancel()
            self._told.put(each)
        wakeups.hint(self._address)

    def store_cancellations(self) -> None:
        """Store the requested cancellations, but not during the tool's body, where a rollback would undo them."""
        if self._asks:
            cancellation.sweep(list(self._asks.values()))

    def forget(self, request_id: UUID) -> None:
        self._asks.pop(request_id, None)
        self.delays.pop(request_id, None)

    def _ask(self, running: Running, cause: Cause, actor: Actor, reason: str = "") -> None:
        self._asks.setdefault(running.row.pk, CancellationRequest(running.row.pk, cause, actor, reason))

    def _check_calls(self, named: set[UUID] | None) -> None:
        while not self._told.empty():
            self._request_stop(self._told.get())
        super()._check_calls(named)

    def _find_unwanted(self, request_ids: object) -> set[UUID]:
        return set()

    def _request_stop(self, running: Running) -> None:
        super()._request_stop(running)
        if running.row.cancel_policy == CancelPolicy.KILL:
            running.after(running.row.hard_grace, lambda running: self.overdue.add(running.row.pk))

    def _report_limit(self, running: Running) -> None:
        self._stop(Cause.DEADLINE, SYSTEM, running)

    def _stop(self, cause: Cause, actor: Actor, running: Running) -> None:
        if not running.context.is_cancelled:
            self._ask(running, cause, actor)
            self._request_stop(running)
