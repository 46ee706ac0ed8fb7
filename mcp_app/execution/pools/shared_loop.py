"""The event loop that the `async` calls of one process share, in a thread of its own.

Everything that a call begins in the loop belongs to that call: its tasks, the threads for its
blocking code, and its subprocesses, which get its marker. A `ContextVar` (`member`) identifies the
call.

Code in the loop must not block and must not use the database. If a step holds the loop, no other
step can end it, so the ladder's thread logs which call it is.
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

from mcp_app.execution.stopping import processes

logger = logging.getLogger(__name__)

HELD_AFTER_SECONDS = 1.0
"""How long the loop may not react before it counts as held."""


class LoopCall(Protocol):
    """A call, as its loop uses it."""

    request_id: UUID
    tool: str

    @property
    def blocking(self) -> Executor:
        """The executor for blocking code."""

    def adopt(self, loop: asyncio.AbstractEventLoop, coroutine: Any, options: dict[str, Any]) -> "asyncio.Task[Any]":
        """Make a task for a coroutine that the call has begun."""

    def note_processes(self) -> None:
        """Note that the call starts a process with its marker."""


member: ContextVar[LoopCall | None] = ContextVar("mcp_app_loop_member", default=None)
"""The call to which the running code belongs."""


class SharedLoop(asyncio.SelectorEventLoop):
    """An event loop that runs from `start` until its process ends."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work: LoopCall | None = None
        """The call whose step is running."""
        self.members = 0
        self._thread = threading.Thread(target=self._serve, name="mcp-loop", daemon=True)
        self._pinged_at: float | None = None
        self._is_reported = False
        self.set_task_factory(_make_task)  # type: ignore[arg-type] # it makes tasks only

    def start(self) -> None:
        self._thread.start()

    @property
    def thread(self) -> int:
        """The identifier of its thread, once it is started."""
        assert self._thread.ident is not None
        return self._thread.ident

    def call_in_loop(self, action: Callable[[], object]) -> None:
        """Call `action` in the loop, outside of any call. Safe in any thread."""
        self.call_soon_threadsafe(action, context=Context())

    def check_is_held(self) -> None:
        """Log an error if the loop has not reacted since an earlier check.

        Called at an interval, always from the same other thread.
        """
        now = time.monotonic()
        if self._pinged_at is None:
            self._pinged_at = now
            self.call_in_loop(self._on_ping)
        elif not self._is_reported and now - self._pinged_at > HELD_AFTER_SECONDS:
            self._is_reported = True
            message = (
                "the event loop that %d async calls share is blocked%s: none of them can continue or be stopped\n%s"
            )
            logger.error(message, self.members, self._by(), self._stack())

    def run_in_executor(  # type: ignore[override] # functions with any arguments
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
            except BaseException:  # raised by a callback; a task keeps its exception
                logger.exception("a callback tried to stop the event loop; the loop continues")

    def _on_ping(self) -> None:
        if self._is_reported and self._pinged_at is not None:
            logger.error("the event loop continues; it was blocked for %.1f s", time.monotonic() - self._pinged_at)
        self._is_reported = False
        self._pinged_at = None

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
