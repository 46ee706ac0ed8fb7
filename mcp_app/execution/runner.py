"""The run of one request, as a pipeline: claim → prepare → call → conclude → close → report.

At most once: the claim lets one message run a row, and nothing here runs a tool again; only a tool that asked its user
is, once it was answered, by its author's word. The row is closed before Celery
is told; Celery's own result is for people, never the truth.
"""

import logging
import time
import traceback
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from celery import Task
from celery.exceptions import Ignore

from mcp_app.catalogue import results
from mcp_app.catalogue.errors import CannotAsk, InvalidArguments, InvalidResult, ProtocolError, ToolError
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.catalogue.schema import bind
from mcp_app.execution import child, connections, coroutines, processes, spans
from mcp_app.execution.child import Child
from mcp_app.execution.context import ToolContext, entered
from mcp_app.execution.identity import worker_identity
from mcp_app.execution.interrupt import Raised, Returned, ToolCancelled
from mcp_app.execution.watcher import Running
from mcp_app.lifecycle import input_rounds, transitions
from mcp_app.models import Request
from mcp_app.protocol.errors import MISSING_CLIENT_CAPABILITY
from mcp_app.protocol.revisions import MODERN
from mcp_app.states import Stage, Status

logger = logging.getLogger(__name__)

STAND_STILL_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: what is written into the row, and the unexpected exception that Celery is to keep."""

    status: Status
    result: dict[str, Any] | None = None
    partial_result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    raised: BaseException | None = None
    questions: Mapping[str, Any] = field(default_factory=dict)
    """What it asks of its client (INPUT_REQUIRED): an InputRequests object."""


def run(task: Task, request_id: UUID) -> str:
    """Run one request to its end and return its final status. Raises Ignore when this message is not to run it."""
    here = child.current()
    row = claim(here, request_id)
    with spans.running(row) as span:
        running, outcome = call(here, row)
        ending = conclude(row, running, outcome)
        status = close(here, row, running, ending)
        spans.conclude(span, status or ending.status, ending.error)
    return report(task, row, status, ending)


def claim(here: Child, request_id: UUID) -> Request:
    """QUEUED → RUNNING, or Ignore: cancelled, claimed by another message's run, or purged."""
    row = here.recorder.call(partial(_claim, here, request_id))
    if row is None:
        logger.info("request %s is not to be run", request_id)
        raise Ignore
    return row


def call(here: Child, row: Request) -> tuple[Running, Returned | Raised]:
    """Call the tool, armed, marked and watched; nothing it raises leaves this function."""
    context = ToolContext(row, here.recorder, here.interrupter)
    running = Running(row, context, connections.of_this_thread())
    try:
        connections.freshen()
        body = prepare(row, context, running)
    except Exception as error:
        return running, Raised(error)
    here.recorder.open(row.pk)
    here.watcher.begin(running)
    try:
        with processes.marked(row.pk), entered(context):
            outcome = here.interrupter.run(row.pk, body)
    finally:
        here.watcher.end(running)
    if here.interrupter.raised:
        running.stage = Stage.INTERRUPT
    if context.is_cancelled:
        if isinstance(outcome, Raised):
            _let_go(outcome.error)
        connections.drop_all()
        processes.kill_leftovers(row.pk)
    connections.drop_unfinished(running.wrappers)
    return running, outcome


def prepare(row: Request, context: ToolContext, running: Running) -> Callable[[], Any]:
    """The tool's body as a function of nothing. Raises ToolError or InvalidArguments when there is none."""
    tool = registered_tools().get(row.tool)
    if tool is None:
        raise ToolError(f"The tool {row.tool} is not there any more.")
    arguments = bind(tool, row.arguments)
    if (parameter := tool.signature.context_parameter) is not None:
        arguments[parameter] = context
    function = partial(tool.function, **arguments)
    return partial(_answer, tool, context, partial(coroutines.run, function, running) if tool.is_async else function)


def conclude(row: Request, running: Running, outcome: Returned | Raised) -> Ending:
    """What the outcome means: a stop if the cancellation reached the tool, else a result or an error."""
    try:
        return _conclude(row, running, outcome)
    except Exception as error:  # what a tool leaves may raise whatever is done with it
        logger.exception("how request %s ended cannot be told", row.pk)
        status = Status.CANCELLED if running.context.is_cancelled else Status.FAILED
        result = None if status == Status.CANCELLED else results.error_result(results.FAILED)
        return Ending(status, result=result, error={"cause": "tool", "type": type(error).__name__})


def _conclude(row: Request, running: Running, outcome: Returned | Raised) -> Ending:
    tool = registered_tools().get(row.tool)
    context = running.context
    if isinstance(outcome, Raised):
        if context.is_cancelled:
            return _stopped(tool, context, outcome.error)
        if (asked := context.ended_by(outcome.error)) is not None:
            return Ending(Status.INPUT_REQUIRED, questions=asked.questions)
        return _failed(row, outcome.error)
    value, result = outcome.value
    if context.observed:
        context.partial_result = value
        return _stopped(tool, context, None)
    return Ending(Status.FAILED if result.get("isError") else Status.COMPLETED, result=result)


def close(here: Child, row: Request, running: Running, ending: Ending) -> Status | None:
    """Write the end; None when it was not this worker's to write (killed, lost, or closed by somebody else)."""
    try:
        status = here.recorder.close(partial(_write, row, running, ending))
    except Exception as error:
        logger.exception("the end of request %s cannot be stored as it is", row.pk)
        bare = Ending(Status.FAILED, error={"cause": "storage", "type": type(error).__name__})
        status = here.recorder.close(partial(_write, row, running, bare))
    if status is None and _is_being_killed(here, row):
        # The kill is on its way: outside the task pipe it harms nobody else.
        time.sleep(STAND_STILL_SECONDS)
        status = here.recorder.call(partial(_write, row, running, ending, fenced=True))
    if status is None:
        logger.warning("the result of request %s came after its end and was discarded", row.pk)
    return status


def report(task: Task, row: Request, status: Status | None, ending: Ending) -> str:
    """Tell Celery: a stop is REVOKED with our words, an unexpected exception FAILURE with its traceback."""
    if status is None:
        raise Ignore
    if status == Status.CANCELLED:
        task.backend.mark_as_revoked(task.request.id, _why(row), request=task.request, store_result=True)
        raise Ignore
    if ending.raised is not None:
        raise ending.raised
    return status.value


def _claim(here: Child, request_id: UUID) -> Request | None:
    worker = worker_identity().boot_id
    row = transitions.claim(request_id, worker=worker, pid=here.pid)
    if row is None:
        # A commit whose answer was lost: this process runs nothing, so what it has claimed is what it claimed just now.
        ours = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker, worker_pid=here.pid)
        row = ours.filter(killing=False).first()
    return row


def _let_go(error: BaseException | None) -> None:
    """Clear the frames of a stopped body: a cursor in one of them would keep SQLite's lock after its connection."""
    met: set[int] = set()
    while error is not None and id(error) not in met:
        met.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _answer(tool: RegisteredTool, context: ToolContext, function: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """What the tool returned, and that as a result: a lazy value is the tool's work, too, to be watched and stopped."""
    value = function()
    return value, {} if context.observed else results.to_result(tool, value)


def _write(row: Request, running: Running, ending: Ending, *, fenced: bool = False) -> Status | None:
    if ending.questions and not fenced:
        return input_rounds.ask(row.pk, ending.questions, worker=row.worker, stage=running.stage)
    return transitions.finish(
        row.pk,
        Status.CANCELLED if ending.questions else ending.status,  # behind the fence there is a cancellation
        worker=row.worker,
        fenced=fenced,
        stage=running.stage,
        result=ending.result,
        partial_result=ending.partial_result,
        error=ending.error,
    )


def _is_being_killed(here: Child, row: Request) -> bool:
    return here.recorder.call(Request.objects.filter(pk=row.pk, status=Status.RUNNING, killing=True).exists)


def _failed(row: Request, error: BaseException) -> Ending:
    details = {"cause": "tool", "type": type(error).__name__, "message": str(error)[:2000]}
    if isinstance(error, InvalidArguments):
        return Ending(Status.FAILED, result=results.error_result(str(error)), error=details)
    if isinstance(error, ProtocolError):
        return Ending(Status.FAILED, error={"cause": "protocol", "code": error.code, "message": str(error)})
    if isinstance(error, CannotAsk) and error.required and row.protocol_version == MODERN:
        lacking = {"code": MISSING_CLIENT_CAPABILITY, "data": {"requiredCapabilities": dict(error.required)}}
        return Ending(Status.FAILED, error={"cause": "protocol", "message": str(error), **lacking})
    result = results.failure_result(error)
    if isinstance(error, ToolError):
        return Ending(Status.FAILED, result=result, error=details)
    logger.error("tool %s failed in request %s", row.tool, row.pk, exc_info=error)
    return Ending(Status.FAILED, result=result, error=details, raised=error if isinstance(error, Exception) else None)


def _stopped(tool: RegisteredTool | None, context: ToolContext, error: BaseException | None) -> Ending:
    failed = error is not None and not isinstance(error, ToolCancelled | CancelledError)
    details = {"cause": "cancelled", "type": type(error).__name__} if failed else None
    return Ending(Status.CANCELLED, partial_result=_partial(tool, context.partial_result), error=details)


def _partial(tool: RegisteredTool | None, value: Any) -> dict[str, Any] | None:
    """A partial result is whatever was done so far: it need not be what the output schema promises of a whole one."""
    if value is None or tool is None:
        return None
    try:
        return results.to_partial_result(value)
    except InvalidResult as error:
        return results.error_result(f"The partial result could not be kept: {error}")


def _why(row: Request) -> str:
    fresh = Request.objects.values_list("cancel_cause", "cancel_reason").filter(pk=row.pk).first()
    cause, reason = fresh or ("", "")
    return f"{cause}: {reason}" if reason else str(cause)
