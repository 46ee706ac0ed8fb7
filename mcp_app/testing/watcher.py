"""The watcher of a test's process: it stops a call when the test says so, or when its time limit has passed.

A thread of its own, as ever, since the test's is busy with the tool; so it reads no row, which its own connection might
not see. The steps, their graces and the interrupt are those of a worker. Refuses to kill: the process is the test's.
"""

from functools import partial
from queue import SimpleQueue
from uuid import UUID

from mcp_app.execution.recorder import Recorder
from mcp_app.execution.termination import Termination
from mcp_app.execution.watcher import Running, Watcher, child_address
from mcp_app.lifecycle import cancellation, wakeups
from mcp_app.lifecycle.audit import SYSTEM, Actor
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.lifecycle.processes import Identity
from mcp_app.states import CancelPolicy, Cause, Stage

CLIENT = Actor("mcp_client")


class InProcessWatcher(Watcher):
    """Told, instead of looking."""

    def __init__(self, worker: Identity, pid: int, recorder: Recorder, termination: Termination) -> None:
        super().__init__(worker, pid, recorder, termination)
        self._address = child_address(worker.boot_id, pid)
        self._told: SimpleQueue[Running] = SimpleQueue()
        self._asks: dict[UUID, Ask] = {}
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
        """Cancel the call that runs, and with it what it has started. Raises RuntimeError where none runs."""
        if not (running := list(self.running().values())):
            raise RuntimeError("No call runs: have a function that the tool calls cancel it, or use cancel_when.")
        outermost = running[0]
        self._ask(outermost, Cause.CLIENT, CLIENT, reason)
        for each in running:
            each.reach(Stage.COOPERATIVE)  # before it knows: it may end before the watcher's thread has its turn
            each.context.cancel()
            self._told.put(each)
        wakeups.hint(self._address)

    def store_cancellations(self) -> None:
        """Write what was asked for: not while the body runs, or a transaction of the tool's would take it back."""
        if self._asks:
            cancellation.sweep(list(self._asks.values()))

    def forget(self, request_id: UUID) -> None:
        self._asks.pop(request_id, None)
        self.delays.pop(request_id, None)

    def _ask(self, running: Running, cause: Cause, actor: Actor, reason: str = "") -> None:
        self._asks.setdefault(running.row.pk, Ask(running.row.pk, cause, actor, reason))

    def _look(self, named: set[UUID] | None) -> None:
        while not self._told.empty():
            self._cooperate(self._told.get())
        super()._look(named)

    def _to_stop(self, request_ids: object) -> set[UUID]:
        return set()

    def _cooperate(self, running: Running) -> None:
        super()._cooperate(running)
        if running.row.cancel_policy == CancelPolicy.KILL:
            running.after(running.row.hard_grace, lambda running: self.overdue.add(running.row.pk))

    def _ask_for_the_end(self, running: Running) -> None:
        self._stop(Cause.DEADLINE, SYSTEM, running)

    def _stop(self, cause: Cause, actor: Actor, running: Running) -> None:
        if not running.context.is_cancelled:
            self._ask(running, cause, actor)
            self._cooperate(running)
