"""Start the call of another tool from a tool, for the same caller.

1. Such a call is a request like a client's: it is stored, queued, run by any worker, and audited.
2. Its row names the request that started it (`parent`). It is cancelled when that run is cancelled or
   ends.
3. No client is connected to it, so it cannot ask questions.
4. A tool that waits for it polls its row, through the recorder, at first after 10 ms, later ten times
   a second.
5. A tool may learn sooner than its watcher that its own call must stop: from a child's row, or because
   no child may be started any more. Outside a shield it then waits for its stop signal for up to
   STOP_NOTICE_SECONDS, so that it ends as cancelled.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import mcp_types

from mcp_app.auth.confirmation import confirm
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import arguments as schema
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.arguments import Accepted
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.errors import CallFailed, CannotAsk, ToolError
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.conf import settings
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping.interrupt import Interrupter, StopSignal
from mcp_app.lifecycle import children, publishing
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.children import ChildState, ParentStoppedError, TooManyChildrenError
from mcp_app.lifecycle.limits import call_rates, concurrency
from mcp_app.lifecycle.limits.call_rates import UncountableError
from mcp_app.lifecycle.publishing import BrokerUnavailableError
from mcp_app.lifecycle.requests.submission import Submission, redacted_arguments
from mcp_app.models import Request, request_ids
from mcp_app.protocol.errors import Rejection, unknown_tool_message
from mcp_app.states import TERMINAL, Cause, Status

logger = logging.getLogger(__name__)

NO_CLIENT_TO_ASK = "A call that a tool starts has no client. Ask in the tool that starts it, and pass the answer on."

R = TypeVar("R")

_NO_WORKER_WARNING: Final = (
    "A tool has waited %.0f s for a call of %s (%s) that it started and that is still queued. If calls that wait like "
    "this hold all slots of that queue, none of them proceeds until a time limit passes: give the started tool a queue "
    "and a worker of its own."
)

FIRST_POLL_INTERVAL: Final = 0.01
MAX_POLL_INTERVAL: Final = 0.1
STOP_NOTICE_SECONDS: Final = 5.0
"""How long a tool waits for its stop signal once it knows that its call must stop."""
WARN_AFTER_SECONDS: Final = 10.0
"""The time after which the log warns of an awaited call that is still queued."""


class StartedCall:
    """A call that a tool has started. It is cancelled when the run that started it ends, at the latest.

    `ToolContext.start` returns it. `id` is the id of its request, `tool` its tool's name. In a
    coroutine, `await` it instead of calling `result`.
    """

    def __init__(self, starter: "ChildCalls", request_id: UUID, tool: str) -> None:
        self._starter = starter
        self.id = request_id
        self.tool = tool

    def __await__(self) -> Generator[Any, None, mcp_types.CallToolResult]:
        return self._starter.await_end(self).__await__()

    @property
    def status(self) -> Status:
        """The current status. This is a query that blocks, so do not use it in a coroutine."""
        return self._starter.state_of(self.id).status

    def result(self, timeout: float | None = None) -> mcp_types.CallToolResult:
        """Wait for the call to end, and return its result.

        `timeout` is in seconds. `None`: only the time limits of both calls apply. In a coroutine,
        `await` the call instead.

        Raises `CallFailed` with the tool's message if the call failed, was cancelled or is lost.
        Raises `TimeoutError` if it has not ended in time; the call goes on. Raises `ToolCancelled` if the
        waiting call is cancelled, and then the started one is cancelled, too.
        """
        return self._starter.wait(self, timeout)

    def cancel(self, reason: str = "") -> None:
        """Ask the call, and all calls that it has started, to stop.

        `reason` is stored in the audit, cut after `MCP["MAX_REASON_CHARS"]` characters. Does
        nothing if the call has ended.
        """
        self._starter.cancel(self.id, reason)


class _Wait:
    """The end of a waiting tool's polls: the end of the call, or the timeout."""

    def __init__(self, call: StartedCall, timeout: float | None) -> None:
        self._call = call
        self._timeout = math.inf if timeout is None else timeout
        self._began_at = time.monotonic()
        self._interval = FIRST_POLL_INTERVAL
        self._has_warned = False

    def check_ended(self, state: ChildState) -> bool:
        """Return whether the call has ended. Raises `TimeoutError`, and warns once of a call that stays queued."""
        if state.status in TERMINAL:
            return True
        waited = time.monotonic() - self._began_at
        if waited >= self._timeout:
            raise TimeoutError(f"{self._call.tool} ({self._call.id}) has not ended within {self._timeout:g} s.")
        if state.status == Status.QUEUED and waited > WARN_AFTER_SECONDS and not self._has_warned:
            self._has_warned = True
            logger.warning(_NO_WORKER_WARNING, waited, self._call.tool, self._call.id)
        return False

    def next_interval(self) -> float:
        """Return the seconds until the next poll, and double the interval for the one after."""
        interval, self._interval = self._interval, min(2 * self._interval, MAX_POLL_INTERVAL)
        return max(0.0, min(interval, self._began_at + self._timeout - time.monotonic()))


class ChildCalls:
    """The calls that one run starts."""

    def __init__(self, row: Request, recorder: Recorder, interrupter: Interrupter, stop: StopSignal) -> None:
        self._row, self._recorder, self._interrupter, self._stop = row, recorder, interrupter, stop

    def start(self, tool: str, arguments: dict[str, Any]) -> StartedCall:
        """See `ToolContext.start`."""
        self._stop.check()
        if self._row.depth >= settings.MAX_CHILD_DEPTH:
            raise ToolError(f"{tool} was not started: calls may be nested at most {settings.MAX_CHILD_DEPTH} deep.")
        offered, accepted = self._through_recorder(partial(self._admit, tool, arguments))
        # The id is chosen here, so that the recorder can repeat `_submit` without storing a second row.
        request_id = request_ids.new()
        # Redaction runs in this thread and not on the recorder's, because the site's function may be slow.
        with self._interrupter.shield():
            kept = redacted_arguments(tool, arguments, accepted.arguments)
        submission = _submission(self._row, request_id, offered, arguments, kept)
        try:
            self._through_recorder(partial(self._submit, submission, offered))
            return StartedCall(self, submission.id, tool)
        except ParentStoppedError:
            if not self._stop.is_shielded:
                self._stop.pause(STOP_NOTICE_SECONDS)
                self._stop.check()
            raise ToolError(f"{tool} was not started: the call that would start it is being stopped.") from None

    def wait(self, call: StartedCall, timeout: float | None) -> mcp_types.CallToolResult:
        """See `StartedCall.result`."""
        wait = _Wait(call, timeout)
        while not wait.check_ended(state := self.state_of(call.id)):
            self._stop.check()
            self._stop.pause(wait.next_interval())
        if state.stopped_with_parent and not self._stop.is_shielded:
            self._stop.pause(STOP_NOTICE_SECONDS)
        self._stop.check()
        return _result_of(call, state)

    async def await_end(self, call: StartedCall) -> mcp_types.CallToolResult:
        """As `wait`, for a coroutine and without a timeout."""
        wait = _Wait(call, None)
        while not wait.check_ended(state := await asyncio.to_thread(self.state_of, call.id)):  # noqa: ASYNC110 - other processes end it, so there is no event
            await asyncio.sleep(wait.next_interval())
        if state.stopped_with_parent and not self._stop.is_shielded:
            await asyncio.sleep(STOP_NOTICE_SECONDS)
        return _result_of(call, state)

    def state_of(self, request_id: UUID) -> ChildState:
        """Return the current state of a call that this run has started."""
        return self._through_recorder(partial(children.look, request_id))

    def cancel(self, request_id: UUID, reason: str) -> None:
        """See `StartedCall.cancel`."""
        actor = Actor(f"tool {self._row.tool}")
        ask = CancellationRequest(request_id, Cause.PARENT, actor, reason, part_of=f"started by {self._row.pk}")
        self._through_recorder(partial(cancellation.sweep, [ask]))

    def _admit(self, name: str, arguments: dict[str, Any]) -> tuple[OfferedTool, Accepted]:
        """Check that the caller may call the tool now, count the call, and return the tool and the accepted arguments.

        Raises `ToolError`, `CannotAsk` or `InvalidArguments`.
        """
        caller = confirm(Principal.of(self._row))
        if isinstance(caller, Rejection):
            raise ToolError(f"{name} was not started: {caller.message}")
        tool = catalogue.find(name, caller)
        if tool is None:
            raise ToolError(unknown_tool_message(name))
        if missing := tool.registered.access.missing_scopes(caller):
            raise ToolError(f"{name} was not started: the caller's token lacks the scope {' '.join(missing)}.")
        if tool.registered.requires:
            raise CannotAsk(f"{name} was not started: it needs a client that it can ask. {NO_CLIENT_TO_ASK}")
        accepted = schema.accept(tool.registered, arguments)
        self._count(tool.registered, caller)
        return tool, accepted

    def _count(self, tool: RegisteredTool, caller: Principal) -> None:
        """Count the call against the tool's own rate. Raises `ToolError` if that is used up.

        The site's rate limit is not applied, because it is for calls of clients.
        """
        if tool.rate is None:
            return
        try:
            wait = call_rates.take(tool.rate, call_rates.of_caller(caller, tool.name), time.time())
        except UncountableError as error:
            logger.error("%s is not started, because the cache cannot count its calls: %s", tool.name, error)
            raise ToolError(f"{tool.name} was not started: its rate limit cannot be checked at the moment.") from error
        if wait:
            raise ToolError(
                f"{tool.name} was not started: its rate limit is reached; its caller may call it again in "
                f"{math.ceil(wait)} s."
            )

    def _submit(self, submission: Submission, tool: OfferedTool) -> None:
        """Store and publish the call.

        On the recorder's connection, outside the tool's transactions.
        """
        store = partial(children.submit, worker=self._row.worker)
        try:
            if (at_most := tool.registered.concurrency) is None:
                row: Request | None = store(submission)
            else:
                row = concurrency.submit(submission, at_most, store, with_started=True)
            if row is None:
                raise ToolError(
                    f"{tool.name} was not started: its caller may have at most {at_most} open calls of this tool."
                )
            publishing.publish(row)
        except (TooManyChildrenError, BrokerUnavailableError) as error:
            raise ToolError(f"{tool.name} was not started: {error}") from error

    def _through_recorder(self, function: Callable[[], R]) -> R:
        # An interrupt while the recorder's lock is held would leave it taken for good.
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


def _result_of(call: StartedCall, state: ChildState) -> mcp_types.CallToolResult:
    result = mcp_types.CallToolResult.model_validate(state.result)
    if state.status == Status.COMPLETED:
        return result
    words = "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))
    raise CallFailed(words or f"{call.tool} ended as {state.status.label}.", call.tool, state.status)
