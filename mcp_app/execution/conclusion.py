"""What a tool returned or raised, as the end of its request: what the row keeps, the client reads and Celery is told.

Whatever a tool leaves has an ending. Nothing is stored here; the runner does.
"""

import logging
from asyncio import CancelledError
from typing import Any

from mcp_app.catalogue import results
from mcp_app.catalogue.errors import CannotAsk, InvalidArguments, InvalidResult, ProtocolError, ToolError
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.execution.context import ToolContext
from mcp_app.execution.ending import Ending
from mcp_app.execution.interrupt import Raised, Returned, ToolCancelled
from mcp_app.lifecycle import redaction
from mcp_app.models import Request
from mcp_app.protocol.errors import MISSING_CLIENT_CAPABILITY
from mcp_app.protocol.revisions import MODERN
from mcp_app.states import Status

logger = logging.getLogger(__name__)


def conclude(row: Request, context: ToolContext, outcome: Returned | Raised) -> Ending:
    """What the outcome means: a stop if the cancellation reached the tool, else a result or an error."""
    try:
        return _conclude(row, context, outcome)
    except Exception as error:  # what a tool leaves may raise whatever is done with it
        told = redaction.tellable(error, row.tool)
        logger.error("how request %s ended cannot be told", row.pk, exc_info=told)
        status = Status.CANCELLED if context.is_cancelled else Status.FAILED
        result = None if status == Status.CANCELLED else results.error_result(results.FAILED)
        return Ending(status, result=result, error={"cause": "tool", "type": type(error).__name__})


def _conclude(row: Request, context: ToolContext, outcome: Returned | Raised) -> Ending:
    tool = registered_tools().get(row.tool)
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
    told = redaction.tellable(error, row.tool)
    logger.error("tool %s failed in request %s", row.tool, row.pk, exc_info=told)
    return Ending(Status.FAILED, result=result, error=details, raised=told if isinstance(error, Exception) else None)


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
