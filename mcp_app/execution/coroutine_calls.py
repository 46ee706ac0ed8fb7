"""One call of an `async` tool that shares its event loop: begun in one thread, run in the loop, ended in another.

No thread waits for it meanwhile. Its contextvars go with it: its span, its language, its context, the thread in which
what is thread-sensitive runs. A stop is not over before its tasks and threads are. Refuses the database to the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from asgiref.sync import sync_to_async
from celery import Task
from psutil import Process

from mcp_app import languages
from mcp_app.catalogue import results
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.conf import settings
from mcp_app.execution import runner, spans, surroundings
from mcp_app.execution.child import Child
from mcp_app.execution.context import ToolContext, entered
from mcp_app.execution.coroutines import LAST_WORDS, CallThreads, called
from mcp_app.execution.interrupt import Interrupter, Raised, Returned
from mcp_app.execution.runner import Rest, Served
from mcp_app.execution.shared_loop import SharedLoop, member
from mcp_app.execution.slots import Slot
from mcp_app.execution.steps import LeftError, StepInterrupter, driven
from mcp_app.execution.watcher import Running, in_loop
from mcp_app.models import Request
from mcp_app.states import CancelPolicy, Stage

Outcome: TypeAlias = Returned | Raised
PLAIN = (str, int, float, bool, bytes, type(None))
"""What becomes a result without running code of an author's: anything else is made one in a thread."""


def shares_the_loop(row: Request) -> bool:
    """Whether its tool is `async`, with nothing around it that is not: middleware is called and waited for."""
    tool = registered_tools().get(row.tool)
    return tool is not None and tool.is_async and not settings.MIDDLEWARE


class CoroutineSlot(Slot):
    """A call's place in the loop. Of processes only those are its own that carry its marker."""

    def __init__(self, interrupter: Interrupter) -> None:
        super().__init__(interrupter)

    def marked(self, request_id: UUID) -> AbstractContextManager[None]:
        return nullcontext()  # the loop marks what is started in it

    def started(self) -> set[Process]:
        return set()

    def leave_to_supervision(self) -> None:
        """Nothing: the process goes on with its other calls, and its ladder closes a row that nothing runs."""


class CoroutineCall:
    """`begin`, and some time later `on_over` is called in the loop, with what is left to do: that is for a thread."""

    def __init__(self, here: Child, row: Request, loop: SharedLoop, on_over: Callable[[Rest], object]) -> None:
        self.request_id, self.tool = row.pk, row.tool
        self.interrupter = StepInterrupter(loop.thread, row.pk)
        self.is_over = self.abandoned = False
        self._here, self._row, self._loop, self._on_over = here, row, loop, on_over
        self._context = ToolContext(row, here.recorder, self.interrupter)
        self._running = Running(row, self._context, CoroutineSlot(self.interrupter), [])
        self.blocking, self._sensitive = CallThreads(self._running), CallThreads(self._running, 1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._main: asyncio.Task[Any] | None = None
        self._variables = copy_context()
        self._surroundings = ExitStack()
        self._is_ending = False

    def begin(self) -> None:
        """In a thread: whatever of it needs the database, then into the loop."""
        try:
            tool, function = self._variables.run(self._open)
        except Exception as error:
            self._end(Raised(error))
            return
        self._here.recorder.open(self.request_id)
        running = self._running
        running.wake_loop = in_loop(self._loop, self._interrupt_what_waits)
        running.abandon = in_loop(self._loop, self._take_last_step)
        self._here.watcher.begin(running)
        self._loop.soon(partial(self._start, tool, function))

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
            self._loop.call_later(LAST_WORDS, self._close_what_is_left)

    def _open(self) -> tuple[RegisteredTool, Callable[[], Awaitable[Any]]]:
        self._span = self._surroundings.enter_context(spans.running(self._row))
        self._surroundings.enter_context(languages.active(self._row.language))
        self._surroundings.enter_context(entered(self._context))
        member.set(self)
        return runner.bound(self._row, self._context)

    def _start(self, tool: RegisteredTool, function: Callable[[], Awaitable[Any]]) -> None:
        self._loop.members += 1
        self._main = self._loop.create_task(self._answer(tool, function), context=self._variables)
        self._running.cancel_task = in_loop(self._loop, partial(self._context.when_unshielded, self._main.cancel))
        if self._context.is_cancelled:
            self._main.cancel()
        self._conducting = self._loop.create_task(self._conduct(self._main))

    async def _answer(self, tool: RegisteredTool, function: Callable[[], Awaitable[Any]]) -> tuple[Any, dict[str, Any]]:
        """What the tool returned, and that as a result: a lazy value is the tool's work, too, and may block."""
        value = await called(function, self._sensitive, surroundings.atomic_aliases(tool))
        if self._context.observed:
            return value, {}
        if isinstance(value, PLAIN):
            return value, results.to_result(tool, value)
        return value, await sync_to_async(results.to_result)(tool, value)

    async def _conduct(self, main: "asyncio.Task[Any]") -> None:
        """Nobody's task: wait for the tool's, then for all that it left."""
        await asyncio.wait({main})
        outcome = _outcome(main)
        del main
        self._main = None
        await asyncio.sleep(0)  # generators that it left are closed by tasks of their own
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
        """In the loop: have the interrupt raised where the tool awaits, if it could not be while it ran."""
        if self.interrupter.is_due_at_await:
            for task in [self._main] if self._main is not None else list(self._tasks):
                task.cancel()

    def _close_what_is_left(self) -> None:
        """The tool has ended by its interrupt, and some of its tasks have not."""
        if self._main is None:
            self._abandon()

    def _take_last_step(self) -> None:
        """In the loop: a shield puts off all but a kill."""
        if self._row.cancel_policy == CancelPolicy.KILL:
            self._running.reach(Stage.KILL)
        elif self.interrupter.shielded:
            return
        self._abandon()

    def _abandon(self) -> None:
        """In the loop: close its coroutines, and resume none."""
        self.abandoned = True
        for task in list(self._tasks):
            task.cancel()

    def _end(self, outcome: Outcome) -> None:
        self._on_over(lambda task: self._variables.run(self._finish, outcome, task))

    def _finish(self, outcome: Outcome, task: Task) -> Served:
        """In a thread again."""
        here, running = self._here, self._running
        try:
            here.watcher.end(running)
            self.blocking.end()
            self._sensitive.end()
            runner.leave(here, running, outcome)
            return runner.end(here, self._row, running, outcome, self._span, task)
        finally:
            here.claimed.discard(self.request_id)
            self._surroundings.close()
            running.cancel_task = running.wake_loop = running.abandon = (
                None  # cycles, of which hundreds may end at once
            )


def _outcome(task: "asyncio.Task[Any]") -> Outcome:
    if task.cancelled():
        return Raised(asyncio.CancelledError())
    if (error := task.exception()) is not None:
        return Raised(error.error if isinstance(error, LeftError) else error)
    return Returned(task.result())
