"""The server process makes one span for a request, between its client's and its tool's (conventions for MCP)."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcp_app.states import Status
from tests.support.asgi_client import VERSION, call, message, post, run
from tests.support.tracing import CLIENT, SPAN_ID, TRACE_ID, caught, place
from tests.support.worker import Worker, row


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    with caught() as exporter:
        yield exporter


def the_span(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, dict[str, Any]]:
    [span] = exporter.get_finished_spans()
    return span, dict(span.attributes or {})


def test_a_call_is_a_server_span_below_the_clients_whose_place_the_row_takes(
    worker: Worker, exporter: InMemorySpanExporter
) -> None:
    rows = []

    async def scenario() -> None:
        client = await post(call(request_id=7, meta=CLIENT))
        request_id = await worker.claim()
        rows.append(await row(request_id))
        await worker.finish(request_id)
        assert "result" in await client.json()

    run(scenario())
    span, attributes = the_span(exporter)
    trace_id, parent, own = place(span)
    assert (span.name, span.kind, span.status.status_code) == ("tools/call work", SpanKind.SERVER, StatusCode.UNSET)
    assert (trace_id, parent) == (TRACE_ID, SPAN_ID)
    assert attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": VERSION,
        "jsonrpc.request.id": "7",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "work",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "client.address": "192.0.2.1",
    }
    assert rows[0].trace_context == {**CLIENT, "traceparent": f"00-{TRACE_ID}-{own}-01"}


def test_a_failed_call_is_a_tool_error(worker: Worker, exporter: InMemorySpanExporter) -> None:
    async def scenario() -> None:
        client = await post(call())
        await worker.finish(await worker.claim(), Status.FAILED)
        assert (await client.json())["result"]["isError"] is True

    run(scenario())
    span, attributes = the_span(exporter)
    assert (span.status.status_code, attributes["error.type"]) == (StatusCode.ERROR, "tool_error")


def test_a_call_whose_client_leaves_is_cancelled(worker: Worker, exporter: InMemorySpanExporter) -> None:
    async def scenario() -> None:
        client = await post(call())
        await worker.claim()
        await client.leave()

    run(scenario())
    span, attributes = the_span(exporter)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "disconnect")
    assert attributes["error.type"] == "cancelled"


@pytest.mark.parametrize(
    ("asked", "name", "code"),
    [(call("nosuch"), "tools/call", "-32602"), (message("no/such"), "_OTHER", "-32601")],
)
def test_a_refusal_is_an_error_whose_span_has_no_name_of_the_clients_choosing(
    exporter: InMemorySpanExporter, asked: Any, name: str, code: str
) -> None:
    async def scenario() -> None:
        assert "error" in await (await post(asked)).json()

    run(scenario())
    span, attributes = the_span(exporter)
    assert (span.name, span.status.status_code) == (name, StatusCode.ERROR)
    assert (attributes["error.type"], attributes["rpc.response.status_code"]) == (code, code)
