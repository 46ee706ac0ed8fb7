"""Spans with and without OpenTelemetry."""

import subprocess
import sys

import pytest
from opentelemetry import baggage, trace

from mcp_app import tracing
from tests.support.tracing import CLIENT, SPAN_ID, TRACE_ID, caught, place

ABSENT = """
import sys
sys.modules["opentelemetry"] = None
from mcp_app import tracing
with tracing.span("tools/call", {}, {"traceparent": "received"}, of_peer=True) as span:
    span.fail("tool_error")
    assert span.carrier({"traceparent": "received"}) == {"traceparent": "received"}
assert not tracing.INSTALLED
assert not [name for name in sys.modules if name.startswith("opentelemetry.")]
"""


def test_without_opentelemetry_what_was_received_is_passed_on_and_nothing_else_happens() -> None:
    done = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_without_a_provider_the_clients_trace_is_passed_on_as_it_was() -> None:
    with tracing.span("tools/call", {}, CLIENT, of_peer=True) as span:
        assert span.carrier(CLIENT) == CLIENT


def test_a_span_that_nobody_learns_of_is_none() -> None:
    assert not tracing.is_recorded({})
    assert tracing.is_recorded(CLIENT)
    with tracing.span("tools/list", {}, {}, of_peer=True):
        assert trace.get_current_span() is trace.INVALID_SPAN
    with caught():
        assert tracing.is_recorded({})


def test_a_span_is_below_the_clients_and_carries_its_baggage() -> None:
    with caught() as exporter, tracing.span("tools/call", {"a": "b"}, CLIENT, of_peer=True) as span:
        assert baggage.get_baggage("tenant") == "a"
        carried = span.carrier({})
        own = f"{trace.get_current_span().get_span_context().span_id:016x}"
    assert carried == {**CLIENT, "traceparent": f"00-{TRACE_ID}-{own}-01"}
    [ended] = exporter.get_finished_spans()
    assert place(ended) == (TRACE_ID, SPAN_ID, own)
    assert ended.kind is trace.SpanKind.SERVER
    assert ended.status.status_code is trace.StatusCode.UNSET
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_span_without_a_client_is_a_root_and_links_what_was_current() -> None:
    with caught() as exporter:
        tracer = trace.get_tracer("http")
        with tracer.start_as_current_span("POST /mcp") as http, tracing.span("tools/list", {}, {}, of_peer=True):
            pass
    ended = exporter.get_finished_spans()[0]
    assert ended.parent is None
    assert [link.context for link in ended.links] == [http.get_span_context()]


def test_the_first_failure_counts_and_nothing_breaks_an_exporter() -> None:
    def serve() -> None:
        with tracing.span("x", {"id": "\ud800" * 999}, {}) as span:
            span.fail("-32602", "Unknown tool: \udfff", code=-32602)
            raise ValueError("late")

    with caught() as exporter, pytest.raises(ValueError, match="late"):
        serve()
    [ended] = exporter.get_finished_spans()
    assert dict(ended.attributes or {}) == {
        "id": "?" * 256,
        "error.type": "-32602",
        "rpc.response.status_code": "-32602",
    }
    assert ended.status.description == "Unknown tool: ?"
