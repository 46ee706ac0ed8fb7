"""One call of an `async` tool in the shared loop.

The call is begun in a desk thread, runs in the loop, and is ended in a desk thread. No thread
waits for it. Its context variables go with it: span, language, context, and the one thread for its
thread-sensitive code. The call ends only when all its tasks and threads have ended. Code in the
loop does not use the database.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async

from mcp_app.catalogue import results
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.conf import settings
from mcp_app.execution.pools.shared_loop import SharedLoop, member
from mcp_app.execution.pools.steps import LeftError, StepInterrupter, driven
from mcp_app.execution.process.child import Child
from mcp_app.execution.process.slots import Slot
from mcp_app.execution.process.watcher import in_loop
from mcp_app.execution.run import runner
from mcp_app.execution.run.coroutines import CLEANUP_SECONDS, CallThreads, called
from mcp_app.execution.run.runner import Finished
from mcp_app.execution.stopping.interrupt import Raised, Returned
from mcp_app.execution.tool import middleware
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Stage

Outcome: TypeAlias = Returned | Raised
PLAIN = (str, int, float, bool, bytes, type(None))
"""Types whose values become a result without running code of the tool's author."""


def shares_the_loop(row: Request) -> bool:
    """Return whether the call can run in the loop: its tool is `async`, and there is no middleware.

    Middleware is called and waited for, so it needs a thread.
    """
    tool = registered_tools().get(row.tool)
    return tool is not None and tool.is_async and not settings.MIDDLEWARE


class CoroutineCall:
    """A call in the loop.

    When its tasks and threads have ended, `on_over` is called in the loop. It gets a function that
    stores the ending, which must be called in a thread.
    """

    def __init__(
        self, process: Child, row: Request, loop: SharedLoop, on_over: Callable[[Callable[[], Finished]], object]
    ) -> None:
        self.request_id, self.tool = row.pk, row.tool
        self.interrupter = StepInterrupter(loop.thread, row.pk)
        self.is_over = self.abandoned = False
        self._process, self._row, self._loop, self._on_over = process, row, loop, on_over
        self._variables = copy_context()
        self._environment = ExitStack()
        environment = runner.tool_environment(process, row, Slot(self.interrupter))
        self._running = self._variables.run(self._environment.enter_context, environment)
        self._context = self._running.context
        self.blocking, self._sensitive = CallThreads(self._running), CallThreads(self._running, 1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._main: asyncio.Task[Any] | None = None
        self._is_ending = False

    def begin(self) -> None:
        """Do the steps that need the database, then start the call in the loop.

        Called in a thread.
        """
        try:
            self._variables.run(member.set, self)
            tool, function = self._variables.run(runner.bind_tool, self._row, self._context)
        except Exception as error:
            self._end(Raised(error))
            return
        self._process.recorder.open(self.request_id)
        running = self._running
        running.wake_loop = in_loop(self._loop, self._interrupt_what_waits)
        running.abandon = in_loop(self._loop, self._take_last_step)
        self._process.watcher.begin(running)
        self._loop.call_in_loop(partial(self._start, tool, function))

    def adopt(self, loop: asyncio.AbstractEventLoop, coroutine: Any, options: dict[str, Any]) -> "asyncio.Task[Any]":
        task = asyncio.Task(driven(self, coroutine), loop=loop, **options)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def note_processes(self) -> None:
        self._context.has_run = True

    def enter_step(self) -> None:
        self._loop.at_work = self

    def leave_step(self) -> None:
        self._loop.at_work = None
        if self.interrupter.raised and not self._is_ending:
            self._is_ending = True
            self._loop.call_later(CLEANUP_SECONDS, self._close_what_is_left)

    def _start(self, tool: RegisteredTool, function: Callable[[], Awaitable[Any]]) -> None:
        self._loop.members += 1
        self._main = self._loop.create_task(self._answer(tool, function), context=self._variables)
        self._running.cancel_task = in_loop(
            self._loop, partial(self._context.stop_signal.when_unshielded, self._main.cancel)
        )
        if self._context.is_cancelled:
            self._main.cancel()
        self._conducting = self._loop.create_task(self._conduct(self._main))

    async def _answer(self, tool: RegisteredTool, function: Callable[[], Awaitable[Any]]) -> tuple[Any, dict[str, Any]]:
        """Return the tool's value, and its result.

        A lazy value may block, so it is converted in a thread.
        """
        value = await called(function, self._sensitive, middleware.atomic_aliases(tool))
        if self._context.stop_signal.observed:
            return value, {}
        if isinstance(value, PLAIN):
            return value, results.to_result(tool, value)
        return value, await sync_to_async(results.to_result)(tool, value)

    async def _conduct(self, main: "asyncio.Task[Any]") -> None:
        """Wait for the tool's task, then for all other tasks and threads. Belongs to no call."""
        await asyncio.wait({main})
        outcome = _outcome(main)
        del main
        self._main = None
        await asyncio.sleep(0)  # generators that are still open are closed by tasks of their own
        while self._tasks:
            left = set(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.wait(left)
            for task in left:
                _ = task.cancelled() or task.exception()
        self.is_over = True
        if running := [*self.blocking.dismiss(), *self._sensitive.dismiss()]:
            await asyncio.wait([asyncio.wrap_future(each) for each in running])
        self._running.is_over = True
        self._loop.members -= 1
        self._end(outcome)

    def _interrupt_what_waits(self) -> None:
        """Raise the interrupt where the tool awaits, if it could not be raised in a step."""
        if self.interrupter.is_due_at_await:
            for task in [self._main] if self._main is not None else list(self._tasks):
                task.cancel()

    def _close_what_is_left(self) -> None:
        """Close the tasks that remain although the tool was interrupted and has ended."""
        if self._main is None:
            self._abandon()

    def _take_last_step(self) -> None:
        """Close the coroutines, unless a shield prevents that. Only a kill ignores a shield."""
        if self._row.cancel_policy == CancelPolicy.KILL:
            self._running.reach(Stage.KILL)
        elif self.interrupter.shielded:
            return
        self._abandon()

    def _abandon(self) -> None:
        """Close the coroutines of the call, and resume none of them. In the loop."""
        self.abandoned = True
        for task in list(self._tasks):
            task.cancel()

    def _end(self, outcome: Outcome) -> None:
        self._on_over(lambda: self._variables.run(self._finish, outcome))

    def _finish(self, outcome: Outcome) -> Finished:
        """Store the ending. In a thread."""
        process, running = self._process, self._running
        try:
            process.watcher.end(running)
            self.blocking.end()
            self._sensitive.end()
            runner.leave_tool(process, running, outcome)
            return runner.finish(process, running, outcome)
        finally:
            process.claimed.discard(self.request_id)
            self._environment.close()
            running.cancel_task = running.wake_loop = running.abandon = (
                None  # break cycles, because hundreds of calls may end at once
            )


def _outcome(task: "asyncio.Task[Any]") -> Outcome:
    if task.cancelled():
        return Raised(asyncio.CancelledError())
    if (error := task.exception()) is not None:
        return Raised(error.error if isinstance(error, LeftError) else error)
    return Returned(task.result())
