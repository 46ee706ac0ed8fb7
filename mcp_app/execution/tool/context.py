"""The context of a tool's call: its request, its progress and log, its questions, its cancellation.

`ToolContext` has the methods that tool authors call. It composes three objects: the call's stop
signal, its child calls (`starting`), and `ToolRun`, by which it asks its client
(`catalogue.input.asking`). It never uses the tool's database connections; everything is written by
the recorder.
"""

import asyncio
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse
from mcp_types import LoggingLevel

from mcp_app.auth.principal import Principal, user_of
from mcp_app.catalogue.errors import CannotAsk
from mcp_app.catalogue.input.asking import Asking, Known
from mcp_app.catalogue.input.questions import Answer, Page
from mcp_app.catalogue.schema.signature import Context
from mcp_app.conf import DEFAULT_ENDPOINT, settings
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping import processes
from mcp_app.execution.stopping.interrupt import Interrupter, StopSignal
from mcp_app.execution.tool import subprocesses
from mcp_app.execution.tool.starting import NO_CLIENT_TO_ASK, ChildCalls, StartedCall
from mcp_app.execution.tool.subprocesses import Completed
from mcp_app.lifecycle.database.json_values import finite
from mcp_app.lifecycle.input import input_rounds, visits
from mcp_app.lifecycle.redaction import PayloadKind, redact, redact_each
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Request
from mcp_app.states import EventKind

logger = logging.getLogger(__name__)

PAGE_PARAMETER = "visit"
LEVELS: tuple[str, ...] = get_args(LoggingLevel)
MAX_MESSAGE_CHARS = 1024
MAX_LOG_CHARS = 8192


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The data of a request that its tool can read."""

    id: UUID
    """The key of its row."""
    tool: str
    """The name of the tool."""
    arguments: Mapping[str, Any]
    """The arguments as the client sent them, as JSON."""
    principal: str
    """The caller's name, for display."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """The name and version that the client sends, as an Implementation object. It is not verified,
    so use it for display only."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """The capabilities that the client declares, as a ClientCapabilities object."""
    remote_address: str = ""
    """The client's IP address, or its proxy's. Empty if there is none."""
    endpoint: str = DEFAULT_ENDPOINT
    """The name of the endpoint that received the request."""


class ToolContext(Asking, Context):
    """One call of one tool.

    Get it from a parameter annotated `ToolContext`, or from `current_context()`.
    """

    def __init__(self, row: Request, recorder: Recorder, interrupter: Interrupter) -> None:
        self.stop_signal = StopSignal(interrupter)
        self._run = ToolRun(row, recorder, interrupter, self.stop_signal)
        answers, kept = row.unredacted_value("answers"), row.unredacted_value("kept")
        super().__init__(Known(row.protocol_version, row.client_capabilities, answers, kept), self._run)
        self._row, self._recorder, self._interrupter = row, recorder, interrupter
        self._children: ChildCalls | None = None
        self.request = RequestInfo(
            row.pk,
            row.tool,
            row.unredacted_value("arguments"),
            row.principal_label,
            row.client_info,
            row.client_capabilities,
            row.remote_address,
            row.endpoint,
        )
        """The request of this call: its id, arguments, caller and client."""
        self._progress = -math.inf
        self.body: Callable[[], Any] | None = None
        """The tool's function with its arguments, in its transactions. Called by middleware."""
        self.partial_result: Any = None
        """Stored for the administrators if the call is cancelled. Set it to the result so far: any
        value that a tool may return."""
        self.has_run = False
        """Whether the tool has run subprocesses."""

    @property
    def cancelled(self) -> bool:
        """Whether the call has been cancelled. If so, return soon, with the result so far.

        Once it was true, the call ends as cancelled, and the returned value is stored as
        `partial_result`.
        """
        return self.stop_signal.observe()

    def check(self) -> None:
        """Raise `ToolCancelled` if the call has been cancelled, except inside `shield()`."""
        self.stop_signal.check()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, as `done` of `total` in any unit.

        Example::

            for number, item in enumerate(items, 1):
                pack(item)
                ctx.progress(number, len(items), f"{item} is packed")

        - `done` (int or float): must be finite and greater than in the report before. Other reports
          are dropped.
        - `total` (int or float): `None` if it is not known.
        - `message` (str): cut after 1,024 characters.

        If reports come faster than `MCP["EVENT_RATE"]` a second, some are left out, but never the
        last one. Raises `ToolCancelled` if the call was cancelled, except inside `shield()`.
        Source: 2026-07-28 basic/patterns/progress.
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
            data["message"] = self._redacted(PayloadKind.PROGRESS, str(message)[:MAX_MESSAGE_CHARS])
        self._post(Event(EventKind.PROGRESS, data))

    def log(self, level: LoggingLevel, message: str, *, logger_name: str | None = None) -> None:
        """Send a log message to the client, if it asked for logs, and to the request's timeline.

        Messages of the standard `logging` are sent as well, from `MCP["LOG_LEVEL"]` on.

        - `level` (str): `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or
          `emergency`.
        - `message` (str): cut after 8,192 characters.
        - `logger_name` (str): `None`: the name of the tool.

        Raises `ValueError` for another level. Source: 2026-07-28 server/utilities/logging.
        """
        if level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(LEVELS)}")
        name = logger_name or self.request.tool
        text = self._redacted(PayloadKind.LOG, str(message)[:MAX_LOG_CHARS])
        self._post(Event(EventKind.LOG, {"level": level, "logger": name, "data": text}))

    def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than until the call is cancelled.

        Raises `ToolCancelled` then, unless a shield puts that off. In a coroutine use
        `asyncio.sleep`, because this blocks its event loop.
        """
        self.stop_signal.sleep(seconds)

    def shield(self) -> AbstractContextManager[None]:
        """Return a context manager whose block is finished before anything is raised in it.

        A kill, if the policy allows one, is not put off. Inside the block, a question without an
        answer raises `RuntimeError`.
        """
        return self.stop_signal.shield()

    def elicit_page(self, key: str, message: str, view_name: str, **arguments: Any) -> Answer[Any]:
        """Send the user to a view of this site that is decorated with `mcp_app.visits.visit`.

        Only this user can open the page. Use it for data that must not pass through the client.
        `key` and `message` are those of `elicit`. `view_name` and `arguments` are the name and the
        keyword arguments for Django's `reverse`. The answer is accepted when the visit is completed
        (`Visit.done`), and `content` is the value that was passed there. Until then the question is
        asked again.

        Raises `CannotAsk` if the caller has no account here, if the client declares no URL mode, or
        if another tool started this call. Raises `ImproperlyConfigured` if `MCP["PUBLIC_URL"]` is
        not set. Source: 2026-07-28 client/elicitation.
        """
        answer: Answer[Any] = self.ask(**{key: self._run.page(key, message, view_name, arguments)})[key]
        return answer

    def start(self, tool: str, /, **arguments: Any) -> StartedCall:
        """Call another tool without waiting for it, as a request of its own for the same caller.

        The call is cancelled when this run is cancelled, and when this run ends for any reason. Its
        progress is sent to no client, and it cannot ask questions. Commit data that it must see
        first.

        `tool` is its name, and the keyword arguments are its arguments, as JSON.

        Raises `InvalidArguments` if they do not fit. Raises `CannotAsk` if the tool `requires` a
        client. Raises `ToolError` if the caller has no such tool or no access any more, if too many
        calls are open (`MCP["MAX_CHILDREN"]`, `MCP["MAX_CHILDREN_PER_PRINCIPAL"]`) or nested
        (`MCP["MAX_CHILD_DEPTH"]`), if the tool's own `rate` or `concurrency` is exceeded, or if the
        broker is unavailable. Raises `ToolCancelled` if this call was cancelled.
        """
        if self._children is None:
            self._children = ChildCalls(self._row, self._recorder, self._interrupter, self.stop_signal)
        return self._children.start(tool, arguments)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        progress: bool = False,
    ) -> Completed:
        """Run a subprocess that ends with this call, and return its exit status and output.

        Example::

            ran = ctx.run(["git", "clone", "--", url, folder], progress=True)
            if ran.returncode:
                raise ToolError(ran.output)

        - `argv`: the program and its arguments. There is no shell.
        - `cwd`: its working directory. `None`: that of the worker.
        - `env`: variables to add to the environment.
        - `on_line`: called with each line of output, including its line end.
        - `progress` (bool): whether to report each line as progress, with its number.

        If the call is cancelled, the process and everything that it started are killed, and its
        output becomes `partial_result`, unless the tool has set that. In a coroutine use the
        subprocesses of `asyncio`, because this blocks its event loop.

        Raises `ToolError` if the program cannot be started, but not for its exit status. Raises
        `ToolCancelled` if the call was cancelled.
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
        """The Django user who called, read now.

        `None` for an anonymous caller or a deleted user.
        """
        return user_of(self._row.user_id)

    @property
    def principal(self) -> Principal:
        """The caller, as `visit.principal` in a resource. `ctx.request.principal` is its name."""
        return Principal.of(self._row)

    @property
    def scopes(self) -> frozenset[str] | None:
        """The scopes of the caller's token, or `None` if the caller is not limited by a token."""
        return self.principal.scopes

    def cancel(self) -> None:
        """Set the stop signal. Called by the watcher."""
        self.stop_signal.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether the call has been cancelled. Not for the tool: it does not count as observed."""
        return self.stop_signal.is_set

    @property
    def has_started(self) -> bool:
        """Whether this run may have started other calls."""
        return self._children is not None

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

    def _redacted(self, kind: PayloadKind, text: str) -> str:
        # Do not interrupt the site's redaction function.
        with self._interrupter.shield():
            kept: str = redact(kind, self.request.tool, text).kept
            return kept

    def _post(self, event: Event) -> None:
        # An interrupt while the recorder's lock is held would leave it taken for good.
        with self._interrupter.shield():
            self._recorder.post(self.request.id, event)


class ToolRun:
    """The part of a run that asks questions. See `catalogue.input.asking.AskingRun`."""

    def __init__(self, row: Request, recorder: Recorder, interrupter: Interrupter, stop: StopSignal) -> None:
        self._row, self._recorder, self._interrupter, self._stop = row, recorder, interrupter, stop

    def check_goes_on(self) -> None:
        self._stop.check()

    def check_may_end(self) -> None:
        if self._stop.is_shielded:
            raise RuntimeError("A question ends the run, so it cannot be asked inside shield(). Ask before it.")

    def check_has_client(self) -> None:
        if self._row.parent is not None:
            raise CannotAsk(f"{self._row.tool} has no client to ask. {NO_CLIENT_TO_ASK}")

    def keep(self, key: str, value: Any) -> None:
        # An interrupt while the recorder's lock is held would leave it taken for good.
        with self._interrupter.shield():
            self._store(key, value)

    async def akeep(self, key: str, value: Any) -> None:
        await asyncio.to_thread(self._store, key, value)

    def _store(self, key: str, value: Any) -> None:
        kept = redact_each(PayloadKind.KEPT, self._row.tool, {key: value}).kept
        keep = partial(input_rounds.keep, self._row.pk, key, value, worker=self._row.worker, kept=kept)
        if not self._recorder.call(keep):
            raise RuntimeError(
                f"The result of once({key!r}) cannot be stored: the request no longer belongs to this run."
            )

    def page(self, key: str, message: str, view_name: str, arguments: dict[str, Any]) -> Page:
        """Return the question that sends the user to a view of this site.

        See `ToolContext.elicit_page`.
        """
        if not self._row.user_id:
            raise CannotAsk(
                "This call needs a caller with an account on this site, because the page must recognise its user."
            )
        if settings.PUBLIC_URL is None:
            raise ImproperlyConfigured(
                'Set MCP["PUBLIC_URL"] to the address of this site, such as https://example.com.'
            )
        path = reverse(view_name, kwargs=arguments)
        query = urlencode({PAGE_PARAMETER: visits.token(self._row.pk, key)})
        visited = self._row.unredacted_value("visited")
        left = [visited[key]] if key in visited else []
        return Page(message, f"{settings.PUBLIC_URL.rstrip('/')}{path}?{query}", left)


_current: ContextVar[ToolContext] = ContextVar("mcp_app_context")


def current_context() -> ToolContext:
    """Return the context of the current call. Raises `LookupError` outside a call."""
    return _current.get()


@contextmanager
def use_context(context: ToolContext) -> Iterator[None]:
    """Make `context` the current one in the block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
