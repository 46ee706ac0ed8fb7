"""The run of an `async` tool: its event loop, and the threads that its blocking parts run in.

A stop is not over before those threads have ended: they belong to the call, and their database connections end with it.
No interrupt reaches them, only what they ask of the context and the cancellation of what they query. Refuses to leave
the loop to a task that swallows its cancellation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.execution.interrupt import ToolCancelled
from mcp_app.execution.surroundings import atomically_async
from mcp_app.execution.watcher import Running, in_loop

logger = logging.getLogger(__name__)

LAST_WORDS = 1.0
"""Seconds that the tasks of an interrupted tool are given to clean up."""


class CallThreads(ThreadPoolExecutor):
    """Threads of one call. The watcher knows their connections, and cancels what those execute."""

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
        """Take no more, and forget what has not begun; what still runs in them."""
        self.shutdown(wait=False, cancel_futures=True)
        return list(self._open)

    def end(self) -> None:
        """Wait until nothing runs in the threads any more, and close their connections.

        Not by joining them: a join that was interrupted takes its thread for ended (CPython 3.11).
        """
        wait(self.dismiss())
        self._running.slot.connections.leave_threads(self._wrappers)

    def _meet(self) -> None:
        mine = self._running.slot.connections.enter_thread()
        self._wrappers.extend(mine)
        self._running.wrappers_of_threads.extend(mine)


def run(function: Callable[[], Awaitable[Any]], running: Running, atomic_aliases: Iterable[str]) -> Any:
    """Call a coroutine function in a loop of its own, to its end and that of every task and thread it started."""
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
        except ToolCancelled:  # the interrupt, of which there is one, struck here
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
    running.cancel_task = in_loop(loop, partial(running.context.when_unshielded, current.cancel))
    if running.context.is_cancelled:
        current.cancel()
    return await called(function, sensitive, atomic_aliases)


async def called(
    function: Callable[[], Awaitable[Any]], sensitive: ThreadPoolExecutor, atomic_aliases: Iterable[str]
) -> Any:
    """Call it with what is thread-sensitive in one thread of its own, in the task's context from then on."""
    # The process has one thread for this, which a query of the call before might keep. Not entered, as its exit fails
    # where a coroutine is closed from outside; the context ends with the task.
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
    """Cancel what is left in the loop; after LAST_WORDS close the coroutines that take no notice."""
    if not (tasks := asyncio.all_tasks(loop)):
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_WORDS))
    loop.set_exception_handler(lambda _, context: logger.debug("after the stop: %s", context["message"]))
    for task in tasks:
        coroutine = task.get_coro()
        if not task.done() and coroutine is not None:
            coroutine.close()
