"""Run an `async` tool in an event loop of its own, with threads for its blocking parts.

Used in the prefork and threads pools. In the async pool, calls share a loop (`pools/`).

1. The run is not over before every task and every thread that it started has ended. The threads
   belong to the call, and their database connections are closed with it.
2. The interrupt is raised only in the thread that runs the loop. A helper thread learns of the stop
   when it uses the context, or when its running query is cancelled.
3. A task that swallows its cancellation is closed `CLEANUP_SECONDS` after the interrupt.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.execution.process.watcher import Running, in_loop
from mcp_app.execution.stopping.interrupt import ToolCancelled
from mcp_app.execution.tool.middleware import atomically_async

logger = logging.getLogger(__name__)

CLEANUP_SECONDS = 1.0
"""How long the tasks of an interrupted tool may take to clean up."""


class CallThreads(ThreadPoolExecutor):
    """The threads of one call. The watcher knows their connections and can cancel their queries."""

    def __init__(self, running: Running, max_workers: int | None = None) -> None:
        super().__init__(max_workers, thread_name_prefix="mcp-tool", initializer=self._meet)
        self._running = running
        self._wrappers: list[BaseDatabaseWrapper] = []
        self._open: set[Future[Any]] = set()

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future = super().submit(function, *args, **options)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    def dismiss(self) -> list[Future[Any]]:
        """Accept no more work, drop what has not begun, and return what still runs."""
        self.shutdown(wait=False, cancel_futures=True)
        return list(self._open)

    def end(self) -> None:
        """Wait until nothing runs in the threads any more, and close their connections.

        The threads are not joined: on CPython 3.11, a thread whose join was interrupted counts as
        ended.
        """
        wait(self.dismiss())
        self._running.slot.connections.leave_threads(self._wrappers)

    def _meet(self) -> None:
        mine = self._running.slot.connections.enter_thread()
        self._wrappers.extend(mine)
        self._running.wrappers_of_threads.extend(mine)


def run(function: Callable[[], Awaitable[Any]], running: Running, atomic_aliases: Iterable[str]) -> Any:
    """Call a coroutine function in a new loop, and wait for its tasks and threads."""
    blocking, sensitive = CallThreads(running), CallThreads(running, 1)
    try:
        with asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(blocking)
            try:
                return runner.run(_main(function, running, sensitive, atomic_aliases))
            except ToolCancelled:
                _end_tasks(runner.get_loop())
                raise
            finally:
                running.cancel_task = running.wake_loop = None
    finally:
        try:
            _end_all(blocking, sensitive)
        except ToolCancelled:  # the only interrupt was raised here, so the second attempt is safe
            _end_all(blocking, sensitive)
            raise


async def _main(
    function: Callable[[], Awaitable[Any]],
    running: Running,
    sensitive: ThreadPoolExecutor,
    atomic_aliases: Iterable[str],
) -> Any:
    current = asyncio.current_task()
    assert current is not None
    loop = asyncio.get_running_loop()
    running.wake_loop = in_loop(loop, lambda: None)
    running.cancel_task = in_loop(loop, partial(running.context.stop_signal.when_unshielded, current.cancel))
    if running.context.is_cancelled:
        current.cancel()
    return await called(function, sensitive, atomic_aliases)


async def called(
    function: Callable[[], Awaitable[Any]], sensitive: ThreadPoolExecutor, atomic_aliases: Iterable[str]
) -> Any:
    """Call the function, with one thread of this call for code that is thread-sensitive.

    That thread stays in the context of the current task.
    """
    # By default a process has one such thread, which a query of an earlier call might occupy. The
    # context manager is not entered, because its exit fails if a coroutine is closed from outside.
    own = ThreadSensitiveContext()
    SyncToAsync.context_to_thread_executor[own] = sensitive
    SyncToAsync.thread_sensitive_context.set(own)
    if not atomic_aliases:
        return await function()
    async with atomically_async(atomic_aliases):
        return await function()


def _end_all(*pools: CallThreads) -> None:
    for pool in pools:
        pool.end()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks.

    Coroutines that have not ended after CLEANUP_SECONDS are closed.
    """
    if not (tasks := asyncio.all_tasks(loop)):
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks, timeout=CLEANUP_SECONDS))
    loop.set_exception_handler(lambda _, context: logger.debug("after the stop: %s", context["message"]))
    for task in tasks:
        coroutine = task.get_coro()
        if not task.done() and coroutine is not None:
            coroutine.close()
