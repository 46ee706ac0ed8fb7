"""The words in which an ended request is told to its client, the same on every wire.

A model can act on an `isError` result, so that is what admin cancellations, deadlines, shutdowns and lost workers
become. A client's own cancellation or disconnect is told nothing; its words here are for others who ask.
"""

from typing import Any

from mcp_app.models import Request
from mcp_app.states import Cause, Status

_CANCELLED = {
    Cause.DISCONNECT: "The call was cancelled because its client disconnected.",
    Cause.CLIENT: "The call was cancelled by its client.",
    Cause.ADMIN: "The call was cancelled by an administrator.",
    Cause.DEADLINE: "The call was stopped because its time limit passed.",
    Cause.SHUTDOWN: "The call was stopped because the server is shutting down; it may be tried again.",
    Cause.ABANDONED: "The call was cancelled because nobody came back for its result.",
    Cause.LOST_SERVER: "The call was cancelled because the server process that served its client was lost.",
    Cause.PARENT: "The call was cancelled by the call that started it, or with it.",
}
_LOST = (
    "The worker process that ran this call was lost, and the call was not run again: "
    "it may have been carried out in part. Check before you repeat it."
)
_UNSTOPPABLE = (
    "The call was asked to stop (cause: {cause}), but it could not be stopped where it runs: it may still be running, "
    "and what it does may still take effect. Check before you repeat it."
)
_FAILED = "The call failed inside the server. Its operator can find the details in the log."
_NOT_KEPT = (
    "The call has ended, and its result is not kept any more: what can be told of it was told, or was not asked for."
)
_BROKER = "The call was not run because the task queue was not reachable; try again in a moment."


TOO_MANY_QUESTIONS = (
    "The call asks for input, and as many calls of this caller as may already wait for theirs; answer those first."
)


def final_result(row: Request) -> dict[str, Any]:
    """The CallToolResult of a request that has ended or cannot be stopped (spec: server/tools, Error Handling)."""
    result: dict[str, Any] | None = row.original("result")
    if "result" in row.redacted and "result" not in (row.originals or {}):
        return error_result(_NOT_KEPT)
    if result is not None:
        return result
    return error_result(words(row))


def protocol_error(row: Request) -> dict[str, Any] | None:
    """The JSON-RPC error (code, message, maybe data) of a call that was ended by one; else None."""
    if row.status != Status.FAILED or row.result is not None or not row.error or row.error.get("cause") != "protocol":
        return None
    error = row.original("error")
    return {name: error[name] for name in ("code", "message", "data") if name in error}


def words(row: Request) -> str:
    """How a request without a result ended, or that it cannot be stopped, as a sentence."""
    if row.unstoppable:
        return _with_reason(_UNSTOPPABLE.format(cause=Cause(row.cancel_cause).label), row)
    if row.status == Status.CANCELLED:
        return _with_reason(_CANCELLED[Cause(row.cancel_cause)], row)
    if row.status == Status.LOST:
        return _LOST
    if row.error and row.error.get("cause") == "broker":
        return _BROKER
    if (error := protocol_error(row)) is not None:
        return str(error["message"])
    return _FAILED


def _with_reason(words: str, row: Request) -> str:
    return f"{words} Reason: {row.cancel_reason}" if row.cancel_reason else words


def error_result(text: str) -> dict[str, Any]:
    """An `isError` CallToolResult."""
    return {"content": [{"type": "text", "text": text}], "isError": True}
