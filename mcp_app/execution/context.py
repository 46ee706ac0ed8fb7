"""What a tool is given: its request, its progress and log, and how it learns that it is to stop.

Owns the author's side of cancellation. Refuses the database: everything is handed to the recorder.
"""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, get_args
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from mcp_types import LoggingLevel

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.context_marker import Context
from mcp_app.catalogue.visit import user_of
from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.execution import processes, subprocesses
from mcp_app.execution.interrupt import Interrupter, ToolCancelled
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.starting import StartingTool
from mcp_app.execution.subprocesses import Completed
from mcp_app.lifecycle.events import Event, finite
from mcp_app.lifecycle.redaction import Kind, redact
from mcp_app.models import Request
from mcp_app.states import EventKind

LEVELS: tuple[str, ...] = get_args(LoggingLevel)
MAX_MESSAGE_CHARS = 1024
MAX_LOG_CHARS = 8192

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a tool may know of the request that called it. `client` is unverified: for display only."""

    id: UUID
    tool: str
    arguments: Mapping[str, Any]
    principal: str
    client: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """What the client declares that it can be asked: a ClientCapabilities object."""
    remote_address: str = ""
    """Its IP address; behind a proxy the proxy's, and empty where there is none."""
    endpoint: str = DEFAULT_ENDPOINT
    """The name of the endpoint where it came in."""


class ToolContext(StartingTool, Context):
    """One call of one tool. Ask for it with a parameter annotated `ToolContext`, or by `current_context()`."""

    def __init__(self, row: Request, recorder: Recorder, interrupter: Interrupter) -> None:
        super().__init__(row, recorder, interrupter)
        self.request = RequestInfo(
            row.pk,
            row.tool,
            row.original("arguments"),
            row.principal_label,
            row.client_info,
            row.client_capabilities,
            row.remote_address,
            row.endpoint,
        )
        self._user_id = row.user_id
        self._cancelled = threading.Event()
        self._put_off: Callable[[], object] | None = None
        self._progress = -math.inf
        self.partial_result: Any = None
        """Kept for the administrators if the call is cancelled: set it to what is done so far."""
        self.observed = False
        """Whether the tool has been told of its cancellation."""
        self.has_run = False
        """Whether the tool has run subprocesses."""

    @property
    def cancelled(self) -> bool:
        """Whether the call has been cancelled: stop soon, and return what there is."""
        if self._cancelled.is_set():
            self.observed = True
        return self.observed

    def check(self) -> None:
        """Raise `ToolCancelled` if the call has been cancelled; not inside `shield()`."""
        if self._cancelled.is_set() and not self._interrupter.shielded:
            self.observed = True
            raise ToolCancelled

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, as `done` of `total` in any unit. Raises `ToolCancelled` once the call is cancelled.

        Only finite values greater than the one before are passed on (spec: basic/patterns/progress), others dropped.
        """
        self.check()
        value = finite(done)
        if value is None or value <= self._progress:
            return
        self._progress = value
        data: dict[str, Any] = {"progress": done}
        if finite(total) is not None:
            data["total"] = total
        if message is not None:
            data["message"] = self._redacted(Kind.PROGRESS, str(message)[:MAX_MESSAGE_CHARS])
        self._post(Event(EventKind.PROGRESS, data))

    def log(self, level: LoggingLevel, message: str, *, logger_name: str | None = None) -> None:
        """Say something to the client that asked for it and to the request's timeline (spec: utilities/logging).

        The standard `logging` says it, too, from `MCP["LOG_LEVEL"]` on.
        """
        if level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(LEVELS)}")
        name = logger_name or self.request.tool
        said = self._redacted(Kind.LOG, str(message)[:MAX_LOG_CHARS])
        self._post(Event(EventKind.LOG, {"level": level, "logger": name, "data": said}))

    def sleep(self, seconds: float) -> None:
        """Sleep, but wake and raise `ToolCancelled` as soon as the call is cancelled, and no shield puts that off."""
        until = time.monotonic() + seconds
        self.pause(seconds)
        if self._interrupter.shielded and (left := until - time.monotonic()) > 0:
            time.sleep(left)  # the flag is set, so that nothing else would wait: the block is to be finished as it is
        self.check()

    def pause(self, seconds: float) -> None:
        """Wait until the call is cancelled, at most so long; where a shield puts that off, so long in any case: whoever
        looks again and again there must not spin."""
        if self._cancelled.is_set() and self._interrupter.shielded:
            time.sleep(seconds)
        else:
            self._cancelled.wait(seconds)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Finish the block before anything is raised in it. A kill, where the policy allows one, is not put off."""
        try:
            with self._interrupter.shield():
                yield
        finally:
            if not self._interrupter.shielded and (put_off := self._put_off) is not None:
                self._put_off = None
                self.when_unshielded(put_off)

    def when_unshielded(self, action: Callable[[], object]) -> None:
        """Call `action` now, or at the end of the shield that an `async` tool is in. In the tool's own thread.

        Not once the tool was interrupted: it is cleaning up.
        """
        if self._interrupter.raised:
            return
        if self._interrupter.shielded:
            self._put_off = action
        else:
            action()

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        progress: bool = False,
    ) -> Completed:
        """Run a subprocess that dies with this call; its status and output.

        `env` is added to the environment. `progress` reports each line of output as progress. When the call is
        cancelled, the process and all it started are killed and what it printed becomes `partial_result`.
        """
        self.has_run = True
        return subprocesses.run(
            argv,
            cwd=cwd,
            env={**(env or {}), processes.MARKER: str(self.request.id)},
            check=self.check,
            on_line=self._line_reporter(on_line, progress=progress),
            on_partial=self._keep_partial,
        )

    @property
    def user(self) -> AbstractBaseUser | None:
        """The Django user who called, read now; None for an anonymous caller or a user who is gone."""
        return user_of(self._user_id)

    @property
    def scopes(self) -> frozenset[str] | None:
        """What its caller's token was given for; None: no token limits the caller."""
        return Principal.of(self._row).scopes

    def cancel(self) -> None:
        """Tell the tool, from the watcher's thread."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether the call has been cancelled, asked by others than the tool."""
        return self._cancelled.is_set()

    def _line_reporter(self, on_line: Callable[[str], None] | None, *, progress: bool) -> Callable[[str], None] | None:
        if not progress:
            return on_line
        count = 0

        def report(line: str) -> None:
            nonlocal count
            count += 1
            self.progress(count, message=line.rstrip("\n"))
            if on_line is not None:
                on_line(line)

        return report

    def _keep_partial(self, output: str) -> None:
        if self.partial_result is None:
            self.partial_result = output

    def _redacted(self, kind: Kind, said: str) -> str:
        # The site's function is not to be cut in half.
        with self._interrupter.shield():
            kept: str = redact(kind, self.request.tool, said).kept
            return kept

    def _post(self, event: Event) -> None:
        # An interrupt between the acquisition of the recorder's lock and its release would leave it held for good.
        with self._interrupter.shield():
            self._recorder.post(self.request.id, event)


_current: ContextVar[ToolContext] = ContextVar("mcp_app_context")


def current_context() -> ToolContext:
    """The context of the call that this code runs in, for helpers deep inside. Raises LookupError outside a call."""
    return _current.get()


@contextmanager
def entered(context: ToolContext) -> Iterator[None]:
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
