"""The run of one request, as a pipeline: claim → prepare → call → conclude → close → report.

At most once: the claim lets one message run a row, and nothing here runs a tool again; only a tool that asked its user
is, once it was answered, by its author's word. The row is closed before Celery is told; Celery's own result is for
people, never the truth.
"""

import logging
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from celery import Task
from celery.exceptions import Ignore
from django.db import DatabaseError

from mcp_app import databases, languages
from mcp_app.auth.challenges import lacks_scope
from mcp_app.auth.confirmation import confirm
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import results, rights
from mcp_app.catalogue.errors import ProtocolError, ToolError
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.catalogue.schema import bind
from mcp_app.execution import child, connections, coroutines, reporting, spans, surroundings
from mcp_app.execution.child import Child
from mcp_app.execution.conclusion import conclude
from mcp_app.execution.context import ToolContext, entered
from mcp_app.execution.ending import Ending, redacted
from mcp_app.execution.identity import worker_identity
from mcp_app.execution.interrupt import Raised, Returned
from mcp_app.execution.reporting import Success
from mcp_app.execution.watcher import Running
from mcp_app.lifecycle import cancellation, input_rounds, publishing, redaction, transitions
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.lifecycle.clock import from_now
from mcp_app.models import Request
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, unknown_tool
from mcp_app.states import Cause, Stage, Status
from mcp_app.tracing import Span

logger = logging.getLogger(__name__)

STAND_STILL_SECONDS = 3.0
AT_ONCE_SECONDS = 1.0
"""Between two looks at a clock."""
LEAVING_SECONDS = 0.05
"""What a run that asked has to leave in, before its answered call is sent again: the message would only come back."""
PROCESS_ENDS = "its worker process was told to end"

Served: TypeAlias = tuple[Request, Status | None, Ending]
"""A request's row as it was claimed, what was written, its end."""

Rest: TypeAlias = Callable[[Task], Served]
"""What is left to do of a call whose run began before its Celery task."""

begun: ContextVar[Rest | None] = ContextVar("mcp_app_begun", default=None)


def run(task: Task, request_id: UUID) -> str:
    """Run one request to its end and return its final status. Raises Ignore when this message is not to run it."""
    here = child.current()
    here.termination.install()
    if not here.termination.begin():
        hand_back(request_id)
        raise SystemExit  # billiard's pool takes that for the task's, and lets the process go
    rest = begun.get() or partial(serve, here, request_id)
    return reporting.report(here.recorder, task, *rest(task))


def serve(here: Child, request_id: UUID, task: Task | None = None) -> Served:
    """Run one request to its end, as far as Celery is not told. Raises Ignore when it is not to be run."""
    return serve_claimed(here, claim(here, request_id), task)


def serve_claimed(here: Child, row: Request, task: Task | None = None) -> Served:
    """The same of a request that this process has claimed."""
    try:
        with spans.running(row) as span, languages.active(row.language):
            return end(here, row, *call(here, row), span, task)
    finally:
        here.claimed.discard(row.pk)


def end(
    here: Child, row: Request, running: Running, outcome: Returned | Raised, span: Span, task: Task | None = None
) -> Served:
    """What follows when the tool's body has ended and its call is left."""
    ending = redacted(conclude(row, running.context, outcome), row.tool)
    status = close(here, row, running, ending, reporting.success(task, ending))
    if running.context.has_started:
        end_children(here, row)
    spans.conclude(span, status or ending.status, ending.kept_error)
    return row, status, ending


def hand_back(request_id: UUID) -> None:
    """Give a request to others that came to a process which is to end."""
    logger.info("request %s came to a process that cannot run it now, and is published again", request_id)
    if (queue := Request.objects.filter(pk=request_id).values_list("queue", flat=True).first()) is not None:
        publishing.send(request_id, queue)


def claim(here: Child, request_id: UUID) -> Request:
    """QUEUED → RUNNING, or Ignore: cancelled, claimed by another message's run, or purged. Raises `databases.AWAY`."""
    try:
        row = here.recorder.call_here(partial(_claim, here, request_id, time.monotonic()))
    except databases.AWAY:
        logger.critical("whether request %s was claimed cannot be found out in time", request_id, exc_info=True)
        here.slot().leave_to_supervision()
        raise
    if row is None:
        if request_id in here.claimed and Request.objects.filter(pk=request_id, status=Status.QUEUED).exists():
            time.sleep(LEAVING_SECONDS)
            hand_back(request_id)
        logger.info("request %s is not to be run", request_id)
        raise Ignore
    if row.input_round:
        end_children(here, row)  # of the run before, which ended to ask
    return row


def call(here: Child, row: Request) -> tuple[Running, Returned | Raised]:
    """Call the tool, armed, marked and watched; nothing it raises leaves this function."""
    slot = here.slot()
    context = ToolContext(row, here.recorder, slot.interrupter)
    running = Running(row, context, slot, connections.of_this_thread())
    try:
        slot.connections.freshen()
        body = prepare(row, context, running)
    except Exception as error:
        return running, Raised(error)
    here.recorder.open(row.pk)
    here.watcher.begin(running)
    try:
        with slot.marked(row.pk), entered(context):
            outcome = slot.interrupter.run(row.pk, body)
    finally:
        here.watcher.end(running)
    leave(here, running, outcome)
    return running, outcome


def leave(here: Child, running: Running, outcome: Returned | Raised) -> None:
    """After the body: what it left is ended, how far it was pushed to stop is noted."""
    row, slot, context = running.row, running.slot, running.context
    if isinstance(outcome, Raised) and isinstance(outcome.error, SystemExit) and here.termination.told_at is not None:
        note_termination(here, running)
    if slot.interrupter.raised:
        running.reach(Stage.INTERRUPT)
    if context.is_cancelled:
        if isinstance(outcome, Raised):
            _let_go(outcome.error)
        slot.connections.drop_all()
        slot.kill_leftovers(row.pk, marked=context.has_run)
    slot.connections.drop_unfinished(running.wrappers)


def note_termination(here: Child, running: Running) -> None:
    """The tool was stopped by the end of its process, so the row is to say what stopped it."""
    ask = partial(cancellation.cancel, running.row.pk, cause=Cause.SHUTDOWN, actor=SYSTEM, reason=PROCESS_ENDS)
    here.recorder.call_here(ask)
    running.context.cancel()
    running.reach(Stage.INTERRUPT)


def prepare(row: Request, context: ToolContext, running: Running) -> Callable[[], Any]:
    """The tool's body as a function of nothing. Raises what `bound` raises."""
    tool, function = bound(row, context)
    aliases = surroundings.atomic_aliases(tool)
    if tool.is_async:
        body = partial(coroutines.run, function, running, aliases)
    else:
        body = partial(surroundings.atomically, function, aliases)
    return partial(_answer, tool, context, surroundings.in_middleware(body, context))


def bound(row: Request, context: ToolContext) -> tuple[RegisteredTool, Callable[[], Any]]:
    """The tool, and its function with its arguments. Raises ToolError or InvalidArguments when there is none, and
    ProtocolError when its caller may not have it any more."""
    tool = registered_tools().get(row.tool)
    if tool is None:
        raise ToolError(f"The tool {row.tool} is not there any more.")
    check_caller(row, tool)
    arguments = bind(tool, row.original("arguments"))
    if (parameter := tool.signature.context_parameter) is not None:
        arguments[parameter] = context
    return tool, partial(tool.function, **arguments)


def check_caller(row: Request, tool: RegisteredTool) -> None:
    """That who asked may still have the tool, in the words of their endpoint: the call may have waited for long.

    Raises ProtocolError.
    """
    caller = confirm(Principal.of(row))
    if isinstance(caller, Rejection):
        raise ProtocolError(caller.message, caller.code)
    if not rights.is_granted(tool.access, caller):
        raise ProtocolError(unknown_tool(row.tool), INVALID_PARAMS)
    if missing := tool.access.missing_scopes(caller):
        lacking = lacks_scope(missing, tool.access.scopes, caller)
        raise ProtocolError(lacking.message, lacking.code)


def close(here: Child, row: Request, running: Running, ending: Ending, success: Success | None) -> Status | None:
    """Write the end; None when it was not this worker's to write (killed, lost, or closed by somebody else).

    Where no end can be stored within `ENDING_TIMEOUT` nobody runs the row any more: it is found lost.
    """
    try:
        status = _stored(here, row, running, ending, success)
    except Exception as error:
        told = redaction.tellable(error, row.tool)
        logger.critical("the end of request %s could not be stored in time", row.pk, exc_info=told)
        running.slot.leave_to_supervision()
        raise
    if status is None and _is_being_killed(here, row):
        # The kill is on its way: outside the task pipe it harms nobody else.
        time.sleep(STAND_STILL_SECONDS)
        status = here.recorder.call_here(partial(_write, row, running, ending, fenced=True))
    if status is None:
        logger.warning("the result of request %s came after its end and was discarded", row.pk)
        here.recorder.cast(partial(transitions.note_late_result, row.pk, ending.status))
    return status


def _stored(here: Child, row: Request, running: Running, ending: Ending, success: Success | None) -> Status | None:
    """The end as it is, or that it cannot be stored."""
    try:
        return here.recorder.close(row.pk, partial(_end, row, running, ending, success))
    except databases.AWAY:
        raise
    except Exception as error:
        told = redaction.tellable(error, row.tool)  # databases quote what they refuse
        logger.error("the end of request %s cannot be stored as it is", row.pk, exc_info=told)
        bare = Ending(Status.FAILED, error={"cause": "storage", "type": type(error).__name__})
        return here.recorder.close(row.pk, partial(_write, row, running, bare))


def end_children(here: Child, row: Request) -> None:
    """Cancel what a run that is over has started and did not wait for; what fails here is left to supervision."""
    try:
        here.recorder.call_here(partial(cancellation.cancel_children, [row.pk]))
    except Exception:
        logger.exception("what request %s started is left to supervision", row.pk)


def _claim(here: Child, request_id: UUID, began_at: float) -> Request | None:
    """On the recorder's connection, so one at a time. `began_at`: when the first attempt did (`time.monotonic`)."""
    if request_id in here.claimed:
        return None
    worker = worker_identity().boot_id
    here.claimed.add(request_id)  # before the row says so: the ladder takes a row that nobody here runs for lost
    row = None
    try:
        row = transitions.claim(request_id, worker=worker, pid=here.pid)
        if row is None:
            # A commit whose answer was lost: this process does not run it, so it has claimed it just now.
            ours = Request.objects.filter(pk=request_id, status=Status.RUNNING, worker=worker, worker_pid=here.pid)
            since = from_now(began_at - time.monotonic() - AT_ONCE_SECONDS)
            row = ours.filter(killing=False, claimed_at__gte=since).first()
    finally:
        if row is None:
            here.claimed.discard(request_id)
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


def _end(row: Request, running: Running, ending: Ending, success: Success | None) -> Status | None:
    """Write the end in one statement, with Celery's own result, where it is as most ends are."""
    if _is_ordinary(running, ending) and _is_ended(row, ending, success):
        if success is not None:
            success.is_seen_to()
        return ending.status
    written = _write(row, running, ending)
    return ending.status if written is None and _was_written(row, ending) else written


def _was_written(row: Request, ending: Ending) -> bool:
    """By a commit whose answer was lost: nobody but its worker says these of a row that it has claimed."""
    outcome = ending.status in (Status.COMPLETED, Status.FAILED) and not ending.questions
    return outcome and Request.objects.filter(pk=row.pk, status=ending.status, worker=row.worker).exists()


def _is_ended(row: Request, ending: Ending, success: Success | None) -> bool:
    stored = None if success is None else success.beside
    try:
        return transitions.end_run(row, ending.status, result=ending.result, error=ending.error, celery_result=stored)
    except databases.AWAY:
        raise
    except DatabaseError:
        # Perhaps of Celery's result alone, which the end does not need.
        logger.debug("request %s cannot be ended in one statement", row.pk, exc_info=True)
        return False


def _is_ordinary(running: Running, ending: Ending) -> bool:
    unusual = ending.partial_result is not None or ending.questions or ending.kept
    return ending.status in (Status.COMPLETED, Status.FAILED) and running.stage == Stage.NONE and not unusual


def _write(row: Request, running: Running, ending: Ending, *, fenced: bool = False) -> Status | None:
    if ending.questions and not fenced:
        return input_rounds.ask(row.pk, ending.questions, worker=row.worker, stage=running.stage, kept=ending.kept)
    return transitions.finish(
        row.pk,
        Status.CANCELLED if ending.questions else ending.status,  # behind the fence there is a cancellation
        worker=row.worker,
        fenced=fenced,
        stage=running.stage,
        result=ending.result,
        partial_result=ending.partial_result,
        error=ending.error,
        kept={} if ending.questions else ending.kept,
    )


def _is_being_killed(here: Child, row: Request) -> bool:
    return here.recorder.call_here(Request.objects.filter(pk=row.pk, status=Status.RUNNING, killing=True).exists)
