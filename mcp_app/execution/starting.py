"""Starting in a tool: the call of another, durable as a client's and of the same caller, that ends with this run.

Whoever waits for one looks at its row, some times a second, through the recorder. Refuses to let a call outlive the run
that started it, and to give it a client: it can ask nobody.
"""

import asyncio
import logging
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import mcp_types

from mcp_app import request_ids
from mcp_app.auth.confirmation import confirm
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import catalogue, schema
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.errors import CallFailed, CannotAsk, ToolError
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.conf import settings
from mcp_app.execution.asking import NOBODY_TO_ASK, AskingTool
from mcp_app.lifecycle import call_rates, cancellation, children, concurrency, publishing
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.call_rates import UncountableError
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.lifecycle.children import ParentStoppedError, Seen, TooManyChildrenError
from mcp_app.lifecycle.publishing import BrokerUnavailableError
from mcp_app.lifecycle.redaction import Kind, redact
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import Request
from mcp_app.protocol.errors import Rejection, unknown_tool
from mcp_app.states import TERMINAL, Cause, Status

logger = logging.getLogger(__name__)

R = TypeVar("R")

_SCARCE: Final = (
    "%s (%s) is waited for, and no worker has taken it for %.0f s. Where calls that wait hold every slot that it could "
    "run in, nothing moves before their time limits: give its tool a queue and a worker of its own."
)

FIRST_LOOK: Final = 0.01
LOOK_EVERY: Final = 0.1
TOLD_WITHIN: Final = 5.0
"""Seconds in which a tool whose row says that it is to stop is told so: its watcher looks every second."""
SCARCE_AFTER: Final = 10.0
"""Seconds a child is waited for that no worker takes, before the log says what that may mean."""


class StartedCall:
    """A call that a tool started: a request of its own, which ends at the latest with the run that started it.

    `id` is its request's, `tool` its tool's name. In a coroutine, `await` it instead of calling `result`.
    """

    def __init__(self, starter: "StartingTool", request_id: UUID, tool: str) -> None:
        self._starter = starter
        self.id = request_id
        self.tool = tool

    def __await__(self) -> Generator[Any, None, mcp_types.CallToolResult]:
        return self._starter.await_started(self).__await__()

    @property
    def status(self) -> Status:
        """Where it is now."""
        return self._starter.look(self.id).status

    def result(self, timeout: float | None = None) -> mcp_types.CallToolResult:
        """What it returned, once it has, waited for; `timeout` in seconds.

        Raises `CallFailed`, in its words, where it failed, was cancelled or is lost; TimeoutError, and it goes on;
        `ToolCancelled` when the call that waits is cancelled, and then it is, too.
        """
        return self._starter.wait_for_started(self, timeout)

    def cancel(self, reason: str = "") -> None:
        """Ask for it to stop, and what it started; nothing where it is to stop already or has ended."""
        self._starter.cancel_started(self.id, reason)


class _Wait:
    """One wait for a call: how long until the next look, and when it is enough."""

    def __init__(self, call: StartedCall, timeout: float | None) -> None:
        self._call = call
        self._timeout = math.inf if timeout is None else timeout
        self._began_at = time.monotonic()
        self._step = FIRST_LOOK
        self._complained = False

    def is_over(self, seen: Seen) -> bool:
        """Raises TimeoutError."""
        if seen.status in TERMINAL:
            return True
        waited = time.monotonic() - self._began_at
        if waited >= self._timeout:
            raise TimeoutError(f"{self._call.tool} ({self._call.id}) has not ended within {self._timeout:g} s.")
        if seen.status == Status.QUEUED and waited > SCARCE_AFTER and not self._complained:
            self._complained = True
            logger.warning(_SCARCE, self._call.tool, self._call.id, waited)
        return False

    def step(self) -> float:
        """Seconds until the next look: soon at first."""
        step, self._step = self._step, min(2 * self._step, LOOK_EVERY)
        return max(0.0, min(step, self._began_at + self._timeout - time.monotonic()))


class StartingTool(AskingTool):
    """The part of a tool's context that starts others."""

    has_started = False
    """Whether this run may have started any."""

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Wait for so long; where the call is cancelled, only as long as a shield puts that off."""

    def start(self, tool: str, /, **arguments: Any) -> StartedCall:
        """Call another tool without waiting for it: in a request of its own, in the name of the same caller.

        It is cancelled when this run is, and when this run ends, however that ends. Nobody hears of its progress, and
        it can ask nobody. Commit first what it is to see. Raises `InvalidArguments`; and `ToolError` where the caller
        has no such tool or is let in no more, where too many are open (`MCP["MAX_CHILDREN"]`) or called one another
        (`MCP["MAX_CHILD_DEPTH"]`), beyond the tool's own `rate` and `concurrency`, and where the broker is away.
        """
        self.check()
        if self._row.depth >= settings.MAX_CHILD_DEPTH:
            raise ToolError(f"{tool} was not started: as many calls as may have started one another already.")
        self.has_started = True
        offered = self._through_recorder(partial(self._offered, tool, arguments))
        # Its id is chosen here: an attempt that is repeated stores no second row.
        request_id, kept = request_ids.new(), self._redacted_arguments(tool, arguments)
        submission = _submission(self._row, request_id, offered, arguments, kept)
        try:
            self._through_recorder(partial(self._submit, submission, offered))
            return StartedCall(self, submission.id, tool)
        except ParentStoppedError:
            if not self._interrupter.shielded:
                self.pause(TOLD_WITHIN)
                self.check()
            raise ToolError(f"{tool} was not started: the call that would have is to stop.") from None

    def wait_for_started(self, call: StartedCall, timeout: float | None) -> mcp_types.CallToolResult:
        """See `StartedCall.result`."""
        wait = _Wait(call, timeout)
        while not wait.is_over(seen := self.look(call.id)):
            self.check()
            self.pause(wait.step())
        if seen.stopped_with_parent and not self._interrupter.shielded:
            self.pause(TOLD_WITHIN)
        self.check()
        return _returned(call, seen)

    async def await_started(self, call: StartedCall) -> mcp_types.CallToolResult:
        """The same in an event loop."""
        wait = _Wait(call, None)
        while not wait.is_over(seen := await asyncio.to_thread(self.look, call.id)):  # noqa: ASYNC110 - no event: others write its end
            await asyncio.sleep(wait.step())
        if seen.stopped_with_parent and not self._interrupter.shielded:
            await asyncio.sleep(TOLD_WITHIN)
        return _returned(call, seen)

    def look(self, request_id: UUID) -> Seen:
        """A call that this one started, as it is now."""
        return self._through_recorder(partial(children.look, request_id))

    def cancel_started(self, request_id: UUID, reason: str) -> None:
        """See `StartedCall.cancel`."""
        actor = Actor(f"tool {self._row.tool}")
        ask = Ask(request_id, Cause.PARENT, actor, reason, part_of=f"started by {self._row.pk}")
        self._through_recorder(partial(cancellation.sweep, [ask]))

    def _redacted_arguments(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Here, and not on the recorder's thread: the site's function may take its time."""
        with self._interrupter.shield():
            kept: dict[str, Any] = redact(Kind.ARGUMENTS, tool, arguments).kept
            return kept

    def _offered(self, name: str, arguments: dict[str, Any]) -> OfferedTool:
        """The tool where this call's caller may call it now, as if they asked themselves."""
        caller = confirm(Principal.of(self._row))
        if isinstance(caller, Rejection):
            raise ToolError(f"{name} was not started: {caller.message}")
        tool = catalogue.find(name, caller)
        if tool is None:
            raise ToolError(unknown_tool(name))
        if missing := tool.registered.access.missing_scopes(caller):
            raise ToolError(f"{name} was not started: the caller's token lacks {', '.join(missing)}.")
        if tool.registered.requires:
            raise CannotAsk(f"{name} was not started: it asks its client. {NOBODY_TO_ASK}")
        schema.bind(tool.registered, arguments)
        self._count(tool.registered, caller)
        return tool

    def _count(self, tool: RegisteredTool, caller: Principal) -> None:
        """For a rate that the tool itself has: the site's is for what clients call."""
        if tool.rate is None:
            return
        try:
            wait = call_rates.take(
                tool.rate, call_rates.of_caller(caller, self._row.remote_address, tool.name), time.time()
            )
        except UncountableError as error:
            logger.error("%s is not started, as the cache does not count its calls: %s", tool.name, error)
            raise ToolError(f"{tool.name} was not started: how often it is called cannot be counted now.") from error
        if wait:
            raise ToolError(f"{tool.name} was not started: its caller may have it again in {math.ceil(wait)} s.")

    def _submit(self, submission: Submission, tool: OfferedTool) -> None:
        """On the recorder's connection: it commits whatever transaction the tool is in."""
        store = partial(children.submit, worker=self._row.worker)
        try:
            if (at_most := tool.registered.concurrency) is None:
                row: Request | None = store(submission)
            else:
                row = concurrency.submit(submission, at_most, store, with_started=True)
            if row is None:
                raise ToolError(f"{tool.name} was not started: at most {at_most} of its caller's calls may be open.")
            publishing.publish(row)
        except (TooManyChildrenError, BrokerUnavailableError) as error:
            raise ToolError(f"{tool.name} was not started: {error}") from error

    def _through_recorder(self, function: Callable[[], R]) -> R:
        # An interrupt between the recorder's lock and its release would leave it held for good.
        with self._interrupter.shield():
            return self._recorder.call(function)


def _submission(
    row: Request,
    request_id: UUID,
    tool: OfferedTool,
    arguments: dict[str, Any],
    kept: dict[str, Any],
) -> Submission:
    return Submission(
        **tool.terms,
        id=request_id,
        jsonrpc_id=str(request_id),
        arguments=arguments,
        kept_arguments=kept,
        protocol_version=row.protocol_version,
        principal=Principal.of(row),
        client_info=row.client_info,
        trace_context=row.trace_context,
        language=row.language,
        remote_address=row.remote_address,
        parent=row.pk,
        depth=row.depth + 1,
    )


def _returned(call: StartedCall, seen: Seen) -> mcp_types.CallToolResult:
    result = mcp_types.CallToolResult.model_validate(seen.result)
    if seen.status == Status.COMPLETED:
        return result
    words = "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))
    raise CallFailed(words or f"{call.tool} ended as {seen.status.label}.", call.tool, seen.status)
