"""The event loop that the `async` calls of one process share, in a thread of its own.

What a call's tasks begin is the call's: their tasks, the threads for what blocks, the processes that they start, which
carry its marker. Refuses the database, and what blocks: it is said who holds the loop, since nobody can take it away.
"""

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from typing import Any, Protocol
from uuid import UUID

from mcp_app.execution import processes

logger = logging.getLogger(__name__)

HELD_AFTER = 1.0
"""Seconds without an answer after which a loop counts as held."""


class Member(Protocol):
    """A call, as its loop sees it."""

    request_id: UUID
    tool: str

    @property
    def blocking(self) -> Executor:
        """Where what blocks runs."""

    def adopt(self, loop: asyncio.AbstractEventLoop, coroutine: Any, options: dict[str, Any]) -> "asyncio.Task[Any]":
        """Make a task of a coroutine that one of its tasks began."""

    def note_processes(self) -> None:
        """It starts one that carries its marker."""


member: ContextVar[Member | None] = ContextVar("mcp_app_loop_member", default=None)
"""The call that code in the loop belongs to."""


class SharedLoop(asyncio.SelectorEventLoop):
    """Begins to run with `start`, and ends with its process."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work: Member | None = None
        """Whose step is under way."""
        self.members = 0
        self._thread = threading.Thread(target=self._serve, name="mcp-loop", daemon=True)
        self._asked_at: float | None = None
        self._is_told = False
        self.set_task_factory(_make_task)  # type: ignore[arg-type] # it makes no other kind of future

    def start(self) -> None:
        self._thread.start()

    @property
    def thread(self) -> int:
        """Its identifier, once it was started."""
        assert self._thread.ident is not None
        return self._thread.ident

    def soon(self, action: Callable[[], object]) -> None:
        """Call it in the loop, as nobody's. From any thread."""
        self.call_soon_threadsafe(action, context=Context())

    def look(self) -> None:
        """Say so where the loop has been held since an earlier look. From one other thread, now and then."""
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self.soon(self._answer)
        elif not self._is_told and now - self._asked_at > HELD_AFTER:
            self._is_told = True
            told = "the event loop that %d async calls share is held%s: none of them goes on, or stops\n%s"
            logger.error(told, self.members, self._by(), self._stack())

    def run_in_executor(  # type: ignore[override] # of functions with any arguments
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        if executor is None and (call := member.get()) is not None:
            executor = call.blocking
        return super().run_in_executor(executor, func, *args)

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        return await super().subprocess_exec(*args, **_marked(options))

    async def subprocess_shell(self, *args: Any, **options: Any) -> Any:
        return await super().subprocess_shell(*args, **_marked(options))

    def _serve(self) -> None:
        asyncio.set_event_loop(self)
        while True:
            try:
                self.run_forever()
            except BaseException:  # of a callback: tasks keep theirs
                logger.exception("a callback would have ended the event loop, which goes on")

    def _answer(self) -> None:
        if self._is_told and self._asked_at is not None:
            logger.error("the event loop goes on after %.1f s", time.monotonic() - self._asked_at)
        self._is_told = False
        self._asked_at = None

    def _by(self) -> str:
        call = self.at_work
        return "" if call is None else f" by {call.tool} in request {call.request_id}"

    def _stack(self) -> str:
        frame = sys._current_frames().get(self.thread)
        return "".join(traceback.format_stack(frame)[-6:])


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    context = options.get("context")
    call = member.get() if context is None else context.get(member)
    if call is None:
        return asyncio.Task(coroutine, loop=loop, **options)
    return call.adopt(loop, coroutine, options)


def _marked(options: dict[str, Any]) -> dict[str, Any]:
    if (call := member.get()) is None:
        return options
    call.note_processes()
    environment = os.environ if options.get("env") is None else options["env"]
    return {**options, "env": {**environment, processes.MARKER: str(call.request_id)}}
