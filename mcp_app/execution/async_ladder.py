"""The async pool's ladder: that of threads, with a way to end a coroutine that only waits, and an eye on its loop.

What holds the loop can be ended no more than a thread can: it is *unstoppable here*, and so is whatever else is asked
to stop there meanwhile. The heart of the worker does not beat in the loop.
"""

from functools import partial

from mcp_app.execution.child import Child
from mcp_app.execution.shared_loop import SharedLoop
from mcp_app.execution.threads import AFTER_KILL_SECONDS, ThreadsLadder, ThreadsPool
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Request

LOOK_AT_LOOP_SECONDS = 0.5


class AsyncLadder(ThreadsLadder):
    """The ladder of a worker whose `async` tools share a loop."""

    pool_name = "async"

    def __init__(self, identity: Identity, pool: ThreadsPool, child: Child, loop: SharedLoop) -> None:
        super().__init__(identity, pool, child)
        self._loop = loop

    def start(self) -> None:
        self.every(LOOK_AT_LOOP_SECONDS, self._loop.look)
        super().start()

    def _take_last_step(self, row: Request) -> None:
        running = self._child.watcher.running().get(row.pk)
        abandon = None if running is None else running.abandon
        if abandon is None:
            super()._take_last_step(row)
            return
        abandon()
        self._timers.after(AFTER_KILL_SECONDS, partial(super()._take_last_step, row))
