"""Turn what a tool returned or raised into an `Ending`, and report the ending to Celery.

The interrupter runs a tool's body and returns `Returned` or `Raised`. `to_ending` makes an `Ending`
from it and stores nothing. It never raises, whatever the tool returned or raised, because every run
needs an ending. The runner stores the ending in the row. Then `report_to_celery` decides what the
Celery task returns or raises.

`to_ending` also calls the site's redaction function, whose errors `redact` handles. At that point no
transaction is open, so a slow function holds no locks; and the tool's body has ended, so no interrupt
can cut it short. A kill still can.
"""

import logging
import traceback
from asyncio import CancelledError
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from celery import Task
from celery.exceptions import Ignore
from django.conf import settings as django_settings

from mcp_app.catalogue import results
from mcp_app.catalogue.errors import CannotAsk, InvalidArguments, InvalidResult, ProtocolError, ToolError
from mcp_app.celery_adapter import results as celery_results
from mcp_app.execution.recorder import Recorder
from mcp_app.execution.stopping.interrupt import Raised, Returned, ToolCancelled
from mcp_app.execution.tool.context import ToolContext
from mcp_app.lifecycle import redaction
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.redaction import PayloadKind, redact, redact_each
from mcp_app.models import Request
from mcp_app.protocol.errors import MISSING_CLIENT_CAPABILITY
from mcp_app.protocol.revisions import MODERN
from mcp_app.states import Status

MAX_TRACEBACK_CHARS: Final = 10_000
"""How much of the end of a traceback is stored if `DEBUG` is on."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: the values for its row, and the exception that Celery should store.

    With INPUT_REQUIRED the run has ended, but not the request.
    """

    status: Status
    result: dict[str, Any] | None = None
    partial_result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    celery_error: BaseException | None = None
    """The loggable form of an unexpected `Exception` of the tool, for Celery's result backend."""
    questions: Mapping[str, Any] = field(default_factory=dict)
    """The questions for the client by their keys, an InputRequests object (status INPUT_REQUIRED)."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """The redacted result, partial result and error, or the redacted questions by key. Empty without redaction."""

    @property
    def kept_error(self) -> dict[str, Any] | None:
        """The error after redaction, as the row stores it."""
        error: dict[str, Any] | None = self.kept.get("error", self.error)
        return error


class OutOfMemoryError(Exception):
    """Raised in place of a tool's `MemoryError`, on which Celery would end the whole worker."""


def to_ending(row: Request, context: ToolContext, returned_or_raised: Returned | Raised) -> Ending:
    """Return how a run ended.

    A run whose tool raised is cancelled if its call was cancelled. One whose tool returned is
    cancelled only if the tool had read its stop signal. Otherwise its questions, its result or
    its error count.
    """
    try:
        ending = _ending_of(row, context, returned_or_raised)
    except Exception as error:  # values of a tool may raise an exception whenever they are used
        shown = redaction.loggable_error(error, row.tool)
        logger.error("the result of request %s could not be evaluated", row.pk, exc_info=shown)
        text = results.failure_text("tool", error, redaction.RedactedError(type(error).__name__))
        details = {"cause": "tool", "type": type(error).__name__}
        if context.is_cancelled:
            ending = Ending(Status.CANCELLED, error=details)
        else:
            ending = Ending(Status.FAILED, result=results.error_result(text), error=details)
    return _with_redacted_values(ending, row.tool)


def _ending_of(row: Request, context: ToolContext, returned_or_raised: Returned | Raised) -> Ending:
    if isinstance(returned_or_raised, Raised):
        if context.is_cancelled:
            return _cancelled_ending(context, returned_or_raised.error)
        if (asked := context.ended_by(returned_or_raised.error)) is not None:
            return Ending(Status.INPUT_REQUIRED, questions=asked.questions)
        return _failed_ending(row, returned_or_raised.error)
    value, result = returned_or_raised.value
    if context.stop_signal.observed:
        context.partial_result = value
        return _cancelled_ending(context, None)
    return Ending(Status.FAILED if result.get("isError") else Status.COMPLETED, result=result)


def _cancelled_ending(context: ToolContext, error: BaseException | None) -> Ending:
    raised_another_error = error is not None and not isinstance(error, ToolCancelled | CancelledError)
    details = {"cause": "cancelled", "type": type(error).__name__} if raised_another_error else None
    # A partial result need not match the output schema.
    partial = None
    if context.partial_result is not None:
        try:
            partial = results.to_partial_result(context.partial_result)
        except InvalidResult as problem:
            partial = results.error_result(f"The partial result could not be kept: {problem}")
    return Ending(Status.CANCELLED, partial_result=partial, error=details)


def _failed_ending(row: Request, error: BaseException) -> Ending:
    details = {"cause": "tool", "type": type(error).__name__, "message": str(error)[: results.MAX_ERROR_CHARS]}
    if isinstance(error, InvalidArguments):
        return Ending(Status.FAILED, result=results.error_result(str(error)), error=details)
    if isinstance(error, ProtocolError):
        return Ending(Status.FAILED, error={"cause": "protocol", "code": error.code, "message": str(error)})
    if isinstance(error, CannotAsk) and error.required and row.protocol_version == MODERN:
        lacking = {"code": MISSING_CLIENT_CAPABILITY, "data": {"requiredCapabilities": dict(error.required)}}
        return Ending(Status.FAILED, error={"cause": "protocol", "message": str(error), **lacking})
    if isinstance(error, ToolError):
        return Ending(Status.FAILED, result=results.failure_result(error), error=details)
    shown = redaction.loggable_error(error, row.tool)
    if isinstance(error, InvalidResult):  # a traceback would only show code of this app
        logger.error("tool %s in request %s returned a result that cannot be sent: %s", row.tool, row.pk, shown)
    else:
        logger.error("tool %s failed in request %s", row.tool, row.pk, exc_info=shown)
    result = results.failure_result(error, shown)
    if django_settings.DEBUG:
        details["traceback"] = "".join(traceback.format_exception(shown))[-MAX_TRACEBACK_CHARS:]
    return Ending(
        Status.FAILED, result=result, error=details, celery_error=shown if isinstance(error, Exception) else None
    )


def _with_redacted_values(ending: Ending, tool: str) -> Ending:
    """Fill in `kept`, if the site has configured redaction."""
    if not redaction.is_configured():
        return ending
    if ending.questions:
        return replace(ending, kept=redact_each(PayloadKind.QUESTION, tool, storable(dict(ending.questions))).kept)
    error = None if ending.error is None else storable(dict(ending.error))
    if error is not None:
        # Only these members come from the tool.
        from_tool = {name: error[name] for name in ("message", "data") if name in error}
        error |= redact_each(PayloadKind.ERROR, tool, from_tool).kept
    kept = {
        "result": redact(PayloadKind.RESULT, tool, ending.result).kept,
        "partial_result": redact(PayloadKind.PARTIAL_RESULT, tool, ending.partial_result).kept,
        "error": error,
    }
    return replace(ending, kept=kept)


def report_to_celery(recorder: Recorder, task: Task, row: Request, status: Status | None, ending: Ending) -> str:
    """Return the status that was stored, or raise what Celery should store as the task's failure.

    Celery's result backend stores a cancelled run as REVOKED, and an unexpected `Exception` as
    FAILURE with its traceback. It stores nothing about other endings, which are in the row.

    Raises `Ignore` if `status` is `None`, because another process has closed the row.
    """
    if status is None:
        raise Ignore
    if status == Status.CANCELLED:
        # Both queries use the recorder's connection: this thread's were closed with the cancelled call. `Ignore` is not
        # raised here, because Celery spends much time on the traceback of an exception.
        recorder.call_in_this_thread(lambda: celery_results.store_revoked(row.pk, _why_cancelled(row), task.request))
        return status.value
    if isinstance(ending.celery_error, MemoryError):
        raise OutOfMemoryError(str(ending.celery_error)) from ending.celery_error
    if ending.celery_error is not None:
        raise ending.celery_error
    return status.value


def _why_cancelled(row: Request) -> str:
    fresh = Request.objects.values_list("cancel_cause", "cancel_reason").filter(pk=row.pk).first()
    cause, reason = fresh or ("", "")
    return f"{cause}: {reason}" if reason else str(cause)
