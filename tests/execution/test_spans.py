"""The span of a tool's run continues the trace whose context is stored in its row."""

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from mcp_app.execution.run import runner
from mcp_app.models import Request
from mcp_app.states import Status
from tests.support.tracing import CLIENT, SPAN_ID, TRACE_ID, caught, place


@pytest.mark.parametrize(
    ("status", "error", "code", "error_type"),
    [
        (Status.COMPLETED, None, StatusCode.UNSET, None),
        (Status.FAILED, None, StatusCode.ERROR, "tool_error"),
        (Status.FAILED, {"cause": "tool", "type": "KeyError", "message": "'b'"}, StatusCode.ERROR, "KeyError"),
        (Status.CANCELLED, {"cause": "cancelled", "type": "ToolCancelled"}, StatusCode.ERROR, "cancelled"),
    ],
)
def test_a_run_is_a_span_below_its_requests_with_the_tools_own_below_it(
    status: Status, error: dict[str, Any] | None, code: StatusCode, error_type: str | None
) -> None:
    row = Request(tool="work", method="tools/call", protocol_version="2026-07-28", trace_context=CLIENT)
    with caught() as exporter, runner.trace_run(row) as span:
        trace.get_tracer("site").start_span("a query").end()
        runner.record_status(span, status, error)
    query, ended = exporter.get_finished_spans()
    trace_id, parent, own = place(ended)
    assert (ended.name, ended.status.status_code) == ("execute_tool work", code)
    assert (trace_id, parent) == (TRACE_ID, SPAN_ID)
    assert place(query)[:2] == (TRACE_ID, own)
    attributes = dict(ended.attributes or {})
    assert attributes.get("error.type") == error_type
    assert attributes["mcp_app.request.id"] == str(row.pk)
