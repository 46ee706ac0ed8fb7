"""2026-07-28 basic/transports/streamable-http: sending, receiving, disconnects, headers that repeat
the body.
"""

import base64
import json
from typing import Annotated, Any

import pytest
from pydantic import Field

from mcp_app.catalogue.errors import InvalidTool
from mcp_app.models import Request
from mcp_app.states import Cause
from mcp_app.tools import tool
from tests.interaction.answers import exchange, read_whole, rejected_with
from tests.support.asgi_client import VERSION, Connection, call, message, post
from tests.support.worker import Worker, in_thread, row

pytestmark = pytest.mark.usefixtures("_tools")


READ = message("resources/read", uri="notes://today")
NAME, METHOD, PARAM = "Mcp-Name", "Mcp-Method", "Mcp-Param-Region"


@pytest.fixture
def _tools(offered: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0)

    @tool
    def regional(
        region: Annotated[str | None, Field(json_schema_extra={"type": "string", "x-mcp-header": "Region"})] = None,
        shelf: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Shelf"})] = 0,
    ) -> str:
        """Work in a region."""
        return ""


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


async def raw(body: Any, headers: dict[str, str] | None = None, method: str = "POST") -> Connection:
    """Send a request with these headers only."""
    connection = Connection(method, headers=headers)
    await connection.send(b"" if body is None else json.dumps(body).encode())
    return connection


async def test_security_an_origin_that_is_not_allowed_is_403_on_every_method() -> None:
    for method in ("POST", "GET", "DELETE", "OPTIONS"):
        connection = Connection(method, headers={"origin": "https://evil.example"})
        await connection.send(b"{", more=True)
        await connection.head()
        assert connection.status == 403


async def test_sending_one_request_or_notification_and_nothing_else() -> None:
    modern = {"MCP-Protocol-Version": VERSION}
    for body in ({"jsonrpc": "2.0", "id": 1, "result": {}}, [message("tools/list")], [], "text", None):
        status, answer = await read_whole(await raw(body if body is not None else 1, modern))
        assert (status, answer["error"]["code"]) == (400, -32600)
    for headers in ({}, modern, {METHOD: "tools/call"}):
        accepted = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}}
        assert await read_whole(await raw(accepted, headers)) == (202, None)


async def test_receiving_a_stream_ends_with_the_response_and_is_not_held_back(worker: Worker) -> None:
    client = await post(call(meta={"progressToken": "t"}))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await client.head()
    assert client.headers["content-type"] == "text/event-stream"
    assert client.headers["x-accel-buffering"] == "no"
    assert client.headers["cache-control"] == "no-cache, no-transform"
    await worker.finish(request_id)
    # `event` accepts only frames without `id` and `retry`.
    *notifications, last = await client.rest()
    assert all("id" not in each for each in notifications)
    assert last["id"] == 1
    assert "result" in last


async def test_receiving_a_client_gets_the_form_that_it_takes() -> None:
    listen = message("subscriptions/listen", notifications={})
    assert await rejected_with(listen, {"Accept": "application/json"}) == (406, 406)
    assert await rejected_with(READ, {"Accept": "text/plain"}) == (406, 406)
    client = await post(READ, accept="application/json")
    assert "result" in await client.json()
    assert client.headers["content-type"] == "application/json"


async def test_receiving_a_client_of_json_alone_gets_no_stream_whatever_is_reported(worker: Worker) -> None:
    client = await post(call(meta={"progressToken": "t"}), accept="application/json")
    request_id = await worker.claim()
    await worker.report(request_id, 1, 2)
    await worker.finish(request_id)
    assert "result" in await client.json()
    assert client.headers["content-type"] == "application/json"


@pytest.mark.fault("F8")
async def test_earlier_revisions_have_nothing_to_say_here() -> None:
    for method in ("GET", "DELETE"):
        connection = await raw(None, {"MCP-Protocol-Version": VERSION, "Mcp-Session-Id": "a"}, method)
        await connection.head()
        assert (connection.status, connection.headers["allow"]) == (405, "POST")
    client = await post(READ, headers={"Mcp-Session-Id": "none", "Last-Event-ID": "1"})
    assert "result" in await client.json()
    assert "mcp-session-id" not in client.headers


async def test_cancellation_a_disconnect_cancels_its_own_request_and_says_nothing_more(worker: Worker) -> None:
    leaving, staying = await post(call(request_id=1)), await post(call(request_id=2))
    rows = {request.jsonrpc_id: request.pk for request in [await row(await worker.claim()) for _ in range(2)]}
    await leaving.leave()
    assert await leaving.silent()
    assert (await row(rows[1])).cancel_cause == Cause.DISCONNECT
    assert (await row(rows[2])).cancel_requested_at is None
    await worker.finish(rows[2])
    assert "result" in await staying.json()


@pytest.mark.fault("F6")
@pytest.mark.parametrize(
    "headers",
    [
        {METHOD: ""},
        {METHOD: "tools/call"},
        {METHOD: "Resources/Read"},
        {METHOD: "resources/read", "mcp-method": "resources/read"},
        {NAME: ""},
        {NAME: "notes://monday/1"},
        {NAME: "NOTES://today"},
        {NAME: "notes://today", "mcp-name": "notes://today"},
        {NAME: "=?base64?bm90ZXM6Ly90b2RheQ?="},
        {NAME: "=?Base64?bm90ZXM6Ly90b2RheQ==?="},
        {NAME: "notes://töday"},
    ],
)
async def test_server_validation_headers_that_do_not_mirror_the_body(headers: dict[str, str]) -> None:
    assert await rejected_with(READ, headers) == (400, -32020)


async def test_server_validation_headers_that_do() -> None:
    for name in (wrapped("notes://today"), "  notes://today "):
        assert (await exchange(READ, {NAME: name}))[0] == 200
    # The value is decoded once: the content of the wrapper is used unchanged.
    assert await rejected_with(READ, {NAME: wrapped(wrapped("notes://today"))}) == (400, -32020)
    for body in (message("tools/list"), message("completion/complete", ref={}, argument={})):
        assert (await exchange(body, {NAME: "anything"}))[0] == 200


@pytest.mark.parametrize(
    "marked",
    [
        {"a": {"type": "number", "x-mcp-header": "A"}},
        {"a": {"type": "array", "x-mcp-header": "A"}},
        {"a": {"type": "string", "x-mcp-header": ""}},
        {"a": {"type": "string", "x-mcp-header": "A B"}},
        {"a": {"type": "string", "x-mcp-header": "A:"}},
        {"a": {"type": "string", "x-mcp-header": "Same"}, "b": {"type": "string", "x-mcp-header": "same"}},
        {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
    ],
)
def test_custom_headers_are_of_plain_properties_and_names_of_their_own(marked: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool):

        @tool(name="odd", input_schema={"type": "object", "properties": marked})
        def odd(arguments: dict[str, Any]) -> str:
            """Be called with what no header can mirror."""
            return ""


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({"region": "eu"}, {PARAM: "eu"}, True),
        ({"region": "é"}, {PARAM: wrapped("é")}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {PARAM: "EU"}, False),
        ({"region": "eu"}, {PARAM: "ö"}, False),
        ({"region": None}, {}, True),
        ({"region": None}, {PARAM: "eu"}, False),
        ({}, {}, True),
        ({}, {PARAM: "eu"}, False),
        ({"shelf": 42}, {"Mcp-Param-Shelf": "42.0"}, True),
        ({"shelf": 42}, {"Mcp-Param-Shelf": "43"}, False),
        ({}, {"Mcp-Param-Unknown": "x"}, True),
    ],
)
async def test_custom_headers_mirror_arguments(
    worker: Worker, arguments: dict[str, Any], headers: dict[str, str], fits: bool
) -> None:
    body = call("regional", **arguments)
    if not fits:
        assert await rejected_with(body, headers) == (400, -32020)
        assert not await in_thread(Request.objects.exists)
        return
    client = await post(body, headers=headers)
    await worker.finish(await worker.claim())
    assert "result" in await client.json()
