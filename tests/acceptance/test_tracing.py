"""A trace goes from the client through the server process and the worker into the tool."""

from pathlib import Path

from tests.acceptance.tracing import spans_in
from tests.support.site.layouts import closing
from tests.support.site.stack import CONCURRENCY, Stack
from tests.support.site.wire import message, text
from tests.support.waiting import eventually

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "00f067aa0ba902b7"


def test_spans_are_linked_from_the_client_to_its_tool(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    with closing(Stack(tmp_path, {"MCP_TEST_SPANS": str(path)}, workers=1)) as site:
        site.serve_from(site.start_embedded(CONCURRENCY))
        meta = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01"}
        call = site.post(message("tools/call", meta=meta, name="echo", arguments={"text": "traced"}))
        assert text(call.result()) == "traced"
        found = eventually(lambda: ours if len(ours := spans_in(path)) == 2 else None, "two spans", within=30.0)
        row = site.row(call)
    assert found is not None
    spans = {span["name"]: span for span in found}
    server, tool = spans["tools/call echo"], spans["execute_tool echo"]
    assert {span["context"]["trace_id"] for span in found} == {f"0x{TRACE_ID}"}
    assert (server["kind"], server["parent_id"]) == ("SpanKind.SERVER", f"0x{SPAN_ID}")
    assert tool["parent_id"] == server["context"]["span_id"]
    assert tool["attributes"]["mcp_app.request.id"] == row.id
