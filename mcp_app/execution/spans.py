"""The span of one tool's run in the worker, below that of its request: OpenTelemetry's `execute_tool`."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mcp_app import tracing
from mcp_app.models import Request
from mcp_app.states import Status
from mcp_app.tracing import Span

REQUEST_ID = "mcp_app.request.id"
"""The row's id: where the trace and the admin meet."""


def running(row: Request) -> AbstractContextManager[Span]:
    """Trace the run of a claimed row; the tool's own spans are below."""
    if not tracing.is_told(row.trace_context):
        return nullcontext(Span())
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": row.tool,
        "mcp.method.name": row.method,
        "mcp.protocol.version": row.protocol_version,
        REQUEST_ID: str(row.pk),
    }
    return tracing.span(f"execute_tool {row.tool}", attributes, row.trace_context)


def conclude(span: Span, status: Status, error: dict[str, Any] | None) -> None:
    """Say how the run ended, by the row's status and error."""
    if status == Status.CANCELLED:
        span.fail(tracing.CANCELLED)
    elif status != Status.COMPLETED:
        told = error or {}
        span.fail(told.get("type", tracing.TOOL_ERROR), told.get("message", ""))
