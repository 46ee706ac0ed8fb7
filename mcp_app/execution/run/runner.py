"""Run one request: claim it, call its tool, store how the run ended, report that to Celery.

Theory of operation
-------------------

A Celery message carries only the id of a request. `run` is called with this id in a process of the
worker's pool, and takes these steps:

    claim             QUEUED -> RUNNING, in one UPDATE; only one message can succeed
    tool_environment  the trace span, the language, and the tool's context
    call_tool         bind the arguments, then run the tool armed, marked and watched
    leave_tool        end what the tool left behind: connections, processes
    to_ending         turn what was returned or raised into an `Ending` (module `ending`)
    store_ending      write the ending into the row
    report_to_celery  return a status, or raise what Celery should store

1. A tool runs at most once. The claim lets one message run a request, and no step here is a retry
   of the tool. The exception is a tool that asks its user a question: it runs again with the
   answer, because its author has written it for that.
2. The row is the truth. It is closed before Celery is told anything, and Celery's result is only
   for people who look at it.
3. While the tool's body runs, it may be interrupted at any instruction. So only the recorder's
   thread writes during that time. Before and after the body, this thread writes on the recorder's
   connection (`call_in_this_thread`).
4. Three actors may end the row of a run: the worker's main process, which kills a process
   (`killing` is set in the row first: the fence); supervision, which declares a row lost; and this
   module. Each UPDATE names the state that it expects, so the first one wins. If another actor was
   first, `store_ending` returns `None`, and the late result is noted and discarded.
5. A commit whose answer was lost may have succeeded. `_claim` and `_write_ending` therefore read
   the row before they conclude that it belongs to another process.

In the async pool, claiming and storing are done by other threads than the event loop's. It calls
`claim`, `bind_tool`, `leave_tool` and `finish` by itself, and hands what is left to `run` as
`rest`, so that Celery's task is still run for each call.
"""

import logging
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from celery import Task
from celery.exceptions import Ignore

from mcp_app import databases, languages, tracing
from mcp_app.auth.challenges import scopes_required
from mcp_app.auth.confirmation import confirm
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import results
from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.errors import ProtocolError, ToolError
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.execution.process import child, slots
from mcp_app.execution.process.child import Child, worker_identity
from mcp_app.execution.process.slots import Slot
from mcp_app.execution.process.watcher import Running
from mcp_app.execution.run import coroutines
from mcp_app.execution.run.ending import Ending, report_to_celery, to_ending
from mcp_app.execution.stopping.interrupt import Raised, Returned
from mcp_app.execution.tool import middleware
from mcp_app.execution.tool.context import ToolContext, use_context
from mcp_app.lifecycle import publishing, redaction
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, unknown_tool_message
from mcp_app.states import Cause, Stage, Status
from mcp_app.tracing import Span

logger = logging.getLogger(__name__)

KILL_WAIT_SECONDS = 3.0
"""How long a process that is about to be killed waits for the kill."""
CLOCK_TOLERANCE_SECONDS = 1.0
"""How far this process's clock and the database's may drift apart during a claim."""
PREVIOUS_RUN_WAIT_SECONDS = 0.05
"""How long the previous run, which has asked a question, may take to end."""
REST: Final = "mcp_rest"
"""The key in a Celery request under which the async pool passes the remaining steps of a call."""
PROCESS_ENDS_REASON = "its worker process had to end"
REQUEST_ID = "mcp_app.request.id"
"""The span attribute with the row's id, by which a trace is found from the admin."""


class Finished(NamedTuple):
    """The result of a run."""

    row: Request
    """The request as it was claimed."""
    status: Status | None
    """The status that was written, or `None` if another process had closed the row."""
    ending: Ending


def run(task: Task, request_id: UUID, rest: Callable[[], Finished] | None = None) -> str:
    """Run one request and return its final status.

    The async pool begins a call before its Celery task. It passes the remaining steps as `rest`.

    Raises `Ignore` if this message must not run the request, or if another process closed the row.
    """
    process = child.current()
    process.termination.install()
    if not process.termination.begin():
        publish_again(request_id)
        raise SystemExit  # for billiard's pool the task has raised it, so the process ends
    finished = run_claimed(process, claim(process, request_id)) if rest is None else rest()
    return report_to_celery(process.recorder, task, *finished)


def run_claimed(process: Child, row: Request) -> Finished:
    """Run a request that this process has claimed, and store how the run ended."""
    try:
        with tool_environment(process, row, process.slot()) as running:
            returned_or_raised = call_tool(process, running)
            return finish(process, running, returned_or_raised)
    finally:
        process.claimed.discard(row.pk)


def finish(process: Child, running: Running, returned_or_raised: Returned | Raised) -> Finished:
    """Store how a run ended. Call it after `leave_tool`."""
    row, context = running.row, running.context
    ending = to_ending(row, context, returned_or_raised)
    status = store_ending(process, running, ending)
    if context.has_started:
        cancel_children(process, row)
    record_status(running.span, status or ending.status, ending.kept_error)
    return Finished(row, status, ending)


def publish_again(request_id: UUID) -> None:
    """Publish a request again, because this process must end and cannot run it."""
    logger.info("request %s reached a process that cannot run it now, and is published again", request_id)
    if (queue := Request.objects.filter(pk=request_id).values_list("queue", flat=True).first()) is not None:
        publishing.send(request_id, queue)


def claim(process: Child, request_id: UUID) -> Request:
    """Move a request from QUEUED to RUNNING, and return its row.

    Raises `Ignore` if the request was cancelled, claimed for another message, or purged. Raises one
    of `databases.AWAY` if the database does not answer in time.
    """
    began_at = time.monotonic()
    try:
        row = process.recorder.call_in_this_thread(lambda: _claim(process, request_id, began_at))
    except databases.AWAY:
        logger.critical("it could not be determined in time whether request %s was claimed", request_id, exc_info=True)
        process.slot().leave_to_supervision()
        raise
    if row is None:
        if request_id in process.claimed and Request.objects.filter(pk=request_id, status=Status.QUEUED).exists():
            time.sleep(PREVIOUS_RUN_WAIT_SECONDS)
            publish_again(request_id)
        logger.info("request %s is not run, because it could not be claimed", request_id)
        raise Ignore
    if row.input_round:
        # The previous run has ended with a question. Cancel the calls that it started.
        cancel_children(process, row)
    return row


def _claim(process: Child, request_id: UUID, began_at: float) -> Request | None:
    """Try to claim a request; return `None` if that is not possible.

    It runs on the recorder's connection, so one thread at a time does this. `began_at` is when the
    first attempt began (`time.monotonic`).
    """
    if request_id in process.claimed:
        return None
    worker = worker_identity().boot_id
    # Add it before the row is claimed: the ladder closes rows that are not in `claimed`.
    process.claimed.add(request_id)
    row = None
    try:
        process.servers.cancel_calls_of_dead()
        row = transitions.claim(request_id, worker=worker, pid=process.pid)
        if row is None:
            # The answer to a commit may have been lost. This process runs no such request, so a
            # row that it has claimed within the last moments was claimed by this attempt.
            ours = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker, worker_pid=process.pid)
            since = from_now(began_at - time.monotonic() - CLOCK_TOLERANCE_SECONDS)
            row = ours.filter(killing=False, claimed_at__gte=since).first()
    finally:
        if row is None:
            process.claimed.discard(request_id)
    return row


@contextmanager
def tool_environment(process: Child, row: Request, slot: Slot) -> Iterator[Running]:
    """Open the span, the language and the context in which a call runs."""
    context = ToolContext(row, process.recorder, slot.interrupter)
    with trace_run(row) as span, languages.active(row.language), use_context(context):
        yield Running(row, context, slot, span)


def call_tool(process: Child, running: Running) -> Returned | Raised:
    """Call the tool so that it can be stopped. An exception of the tool is returned, not raised."""
    row, slot = running.row, running.slot
    running.wrappers = slots.connections_of_this_thread()
    try:
        slot.connections.freshen()
        body = prepare(running)
    except Exception as error:
        return Raised(error)
    process.recorder.open(row.pk)
    process.watcher.begin(running)
    try:
        with slot.isolated(row.pk):
            returned_or_raised = slot.interrupter.run(row.pk, body)
    finally:
        process.watcher.end(running)
    leave_tool(process, running, returned_or_raised)
    return returned_or_raised


def prepare(running: Running) -> Callable[[], tuple[Any, dict[str, Any]]]:
    """Return the tool's body, a function that returns the tool's value and its MCP result.

    The value is converted inside the body. So lazy values are evaluated while the call is watched
    and can be stopped.

    Raises what `bind_tool` raises, and what a factory in `MCP["MIDDLEWARE"]` raises.
    """
    context = running.context
    tool, function = bind_tool(running.row, context)
    aliases = middleware.atomic_aliases(tool)
    if tool.is_async:
        context.body = lambda: coroutines.run(function, running, aliases)
    else:
        context.body = lambda: middleware.atomically(function, aliases)
    get_result = middleware.middleware()

    def body() -> tuple[Any, dict[str, Any]]:
        try:
            value = get_result(context)
        finally:
            context.body = None  # break the reference cycle with the context
        return value, {} if context.stop_signal.observed else results.to_result(tool, value)

    return body


def bind_tool(row: Request, context: ToolContext) -> tuple[RegisteredTool, Callable[[], Any]]:
    """Return the tool, and its function with the arguments of this call.

    Raises `ToolError` if this worker has no such tool, `InvalidArguments` if the arguments do not
    fit, and `ProtocolError` if the caller may not use the tool any more.
    """
    tool = registered_tools().get(row.tool)
    if tool is None:
        logger.error(
            "request %s: this worker has no tool %s: it was added after the worker started, or was "
            "removed; restart the site's workers",
            row.pk,
            row.tool,
        )
        raise ToolError(
            f"The worker that took this call has no tool {row.tool}: either the tool was added after the worker was "
            "started, or it was removed. The site's workers must be restarted."
        )
    check_caller(row, tool)
    arguments = bind(tool, row.unredacted_value("arguments"))
    if (parameter := tool.signature.context_parameter) is not None:
        arguments[parameter] = context
    return tool, partial(tool.function, **arguments)


def check_caller(row: Request, tool: RegisteredTool) -> None:
    """Check that the caller may still use the tool, as the endpoint did before the call was queued.

    Raises `ProtocolError`.
    """
    caller = confirm(Principal.of(row))
    if isinstance(caller, Rejection):
        raise ProtocolError(caller.message, caller.code)
    if not tool.access.is_granted_to(caller):
        raise ProtocolError(unknown_tool_message(row.tool), INVALID_PARAMS)
    if missing := tool.access.missing_scopes(caller):
        lacking = scopes_required(missing, tool.access.scopes, caller)
        raise ProtocolError(lacking.message, lacking.code)


def leave_tool(process: Child, running: Running, returned_or_raised: Returned | Raised) -> None:
    """End what the tool left behind, and note which step of the ladder it needed."""
    row, slot, context = running.row, running.slot, running.context
    error = returned_or_raised.error if isinstance(returned_or_raised, Raised) else None
    if isinstance(error, SystemExit) and process.termination.received_at is not None:
        # A signal that ends this process has stopped the tool: record that as a cancellation.
        stop = partial(cancellation.cancel, row.pk, cause=Cause.SHUTDOWN, actor=SYSTEM, reason=PROCESS_ENDS_REASON)
        process.recorder.call_in_this_thread(stop)
        context.cancel()
        running.reach(Stage.INTERRUPT)
    if slot.interrupter.raised:
        running.reach(Stage.INTERRUPT)
    if context.is_cancelled:
        _clear_frames(error)
        slot.connections.drop_all()
        running.has_leftovers = not slot.kill_leftovers(row.pk, marked=context.has_run)
    slot.connections.drop_unfinished(running.wrappers)


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames of a stopped tool.

    A cursor that is referenced from a frame would keep SQLite's lock after its connection is
    closed.
    """
    met: set[int] = set()
    while error is not None and id(error) not in met:
        met.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def store_ending(process: Child, running: Running, ending: Ending) -> Status | None:
    """Write the ending into the row, and return the status that was written.

    Return `None` if another process has closed the row, because it killed the run or declared it
    lost. If the database is away for longer than `ENDING_TIMEOUT`, the row is left to supervision.
    """
    row, recorder = running.row, process.recorder
    try:
        try:
            status = recorder.close(row.pk, lambda: _write_ending(running, ending))
        except databases.AWAY:
            raise
        except Exception as error:
            # The message of a database error quotes the values.
            shown = redaction.loggable_error(error, row.tool)
            logger.error("the result of request %s could not be stored", row.pk, exc_info=shown)
            bare = Ending(Status.FAILED, error={"cause": "storage", "type": type(error).__name__})
            status = recorder.close(row.pk, lambda: _write_in_full(running, bare))
    except Exception as error:
        shown = redaction.loggable_error(error, row.tool)
        logger.critical("the end of request %s could not be stored in time", row.pk, exc_info=shown)
        running.slot.leave_to_supervision()
        raise
    if status is None:
        killing = Request.objects.filter(pk=row.pk, status=Status.RUNNING, killing=True)
        if recorder.call_in_this_thread(killing.exists):
            # The main process is about to kill this one. Wait here: the kill cannot hit another call.
            time.sleep(KILL_WAIT_SECONDS)
            status = recorder.call_in_this_thread(lambda: _write_in_full(running, ending, fenced=True))
    if status is None:
        logger.warning("the result of request %s came after its end and was discarded", row.pk)
        recorder.enqueue(lambda: transitions.note_late_result(row.pk, ending.status))
    if running.has_leftovers:
        recorder.enqueue(lambda: transitions.note_leftovers(row.pk))
    return status


def _write_ending(running: Running, ending: Ending) -> Status | None:
    """Write the ending, in a single statement if the run was not stopped and asks no question.

    Return `None` if another process has closed the row.
    """
    row = running.row
    has_come_out = ending.status in (Status.COMPLETED, Status.FAILED)
    is_ordinary = has_come_out and running.stage == Stage.NONE and ending.partial_result is None and not ending.kept
    if is_ordinary and transitions.end_run(row, ending.status, result=ending.result, error=ending.error):
        return ending.status
    written = _write_in_full(running, ending)
    if written is None and has_come_out:
        # Perhaps an earlier commit succeeded and its answer was lost. Only the worker that claimed
        # a row writes these statuses.
        written_before = Request.objects.filter(pk=row.pk, status=ending.status, worker=row.worker).exists()
        return ending.status if written_before else None
    return written


def _write_in_full(running: Running, ending: Ending, *, fenced: bool = False) -> Status | None:
    row = running.row
    if ending.questions and not fenced:
        return input_rounds.ask(row.pk, ending.questions, worker=row.worker, stage=running.stage, kept=ending.kept)
    return transitions.finish(
        row.pk,
        # A row behind the fence has been cancelled.
        Status.CANCELLED if ending.questions else ending.status,
        worker=row.worker,
        fenced=fenced,
        stage=running.stage,
        result=ending.result,
        partial_result=ending.partial_result,
        error=ending.error,
        kept={} if ending.questions else ending.kept,
    )


def cancel_children(process: Child, row: Request) -> None:
    """Cancel the calls that a run started and did not wait for.

    A failure is logged; supervision cancels them later.
    """
    try:
        process.recorder.call_in_this_thread(lambda: cancellation.cancel_children([row.pk]))
    except Exception:
        logger.exception("the calls that request %s started could not be cancelled; supervision cancels them", row.pk)


def trace_run(row: Request) -> AbstractContextManager[Span]:
    """Open a span for the run of a claimed request. Spans that the tool opens are its children."""
    if not tracing.is_recorded(row.trace_context):
        return nullcontext(tracing.NOT_RECORDED)
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": row.tool,
        "mcp.method.name": row.method,
        "mcp.protocol.version": row.protocol_version,
        REQUEST_ID: str(row.pk),
    }
    return tracing.span(f"execute_tool {row.tool}", attributes, row.trace_context)


def record_status(span: Span, status: Status, error: dict[str, Any] | None) -> None:
    """Record on the span how the run ended."""
    if status == Status.CANCELLED:
        span.fail(tracing.CANCELLED)
    elif status != Status.COMPLETED:
        details = error or {}
        span.fail(details.get("type", tracing.TOOL_ERROR), details.get("message", ""))
