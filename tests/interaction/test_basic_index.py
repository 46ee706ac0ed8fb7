"""2026-07-28 basic/index: messages, ids, result types, `_meta`, statelessness, JSON Schema, icons."""

from typing import Any

import mcp_types
import pytest

from mcp_app.catalogue.errors import InvalidTool
from mcp_app.models import Request
from mcp_app.tools import tool
from tests.interaction.answers import exchange, read_whole, rejected_with, result_of
from tests.support.asgi_client import META, Connection, call, message, post
from tests.support.worker import Worker, in_thread

CAPABILITIES = META + "clientCapabilities"
INFO = META + "clientInfo"


@pytest.fixture
def needy(offered: None) -> None:
    @tool(requires={"elicitation": {"url": {}}})
    def needy() -> str:
        """Need a client that can be sent to a page."""
        return ""


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("server/discover", {}),
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "notes://today"}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "review", "arguments": {"code": "x"}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": ""}},
        ),
    ],
)
def test_every_result_says_its_type_and_its_server(offered: None, method: str, params: dict[str, Any]) -> None:
    info = result_of(method, **params)["_meta"][META + "serverInfo"]
    assert info["name"]
    assert info["version"]


async def test_an_error_has_its_request_s_id_or_none(offered: None) -> None:
    for request_id in (0, 1, "1", "", -7, "é"):
        await rejected_with(message("nothing", request_id))
    for request_id in (None, True, 1.5, [], {}):
        status, answer = await exchange(message("tools/list", request_id))
        assert (status, answer["error"]["code"]) == (400, -32600)
        assert "id" not in answer
    client = Connection()
    await client.send(b'{"jsonrpc": "2.0", "id": 1, "method": ')
    status, answer = await read_whole(client)
    assert (status, answer["error"]["code"], "id" in answer) == (400, -32700, False)


async def test_equal_ids_of_whomever_are_all_served(offered: None, worker: Worker) -> None:
    clients = [await post(call(request_id=1)) for _ in range(2)]
    for _ in clients:
        await worker.finish(await worker.claim())
    for client in clients:
        assert (await client.json())["id"] == 1


@pytest.mark.fault("F8")
async def test_missing_or_mistyped_metadata_is_refused_and_client_info_may_be_absent(offered: None) -> None:
    for change in ({CAPABILITIES: None}, {CAPABILITIES: []}, {INFO: "me"}, {INFO: {"name": "me", "version": "1"}}):
        body = message("tools/list", meta=change)
        if CAPABILITIES in change:
            assert await rejected_with(body) == (400, -32602)
            del body["params"]["_meta"][CAPABILITIES]
            assert await rejected_with(body) == (400, -32602)
        else:
            assert (await exchange(body))[0] == 200
    body = message("tools/list")
    del body["params"]["_meta"]
    assert await rejected_with(body) == (400, -32602)


async def test_what_a_client_lacks_is_named_and_forgotten_with_its_request(needy: None, worker: Worker) -> None:
    able = {CAPABILITIES: {"elicitation": {"url": {}}}}
    client = await post(call("needy", meta=able))
    await worker.finish(await worker.claim())
    await client.json()
    status, answer = await exchange(call("needy"))
    assert (status, answer["error"]["code"]) == (400, -32021)
    assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert await in_thread(Request.objects.count) == 1


async def test_a_malformed_trace_context_fails_no_request(offered: None) -> None:
    for meta in ({"traceparent": "00-0-0-0"}, {"traceparent": 1, "tracestate": []}, {"baggage": "=;,="}):
        assert (await exchange(message("tools/list", meta=meta)))[0] == 200


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "https://example.com/dialect"},
        {"properties": {"a": {"$ref": "https://example.com/schema.json"}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"type": "array"},
    ],
)
def test_a_schema_that_cannot_be_checked_is_refused_at_once(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool, match="odd"):

        @tool(name="odd", input_schema={"type": "object", **schema})
        def odd(arguments: dict[str, Any]) -> str:
            """Take what cannot be checked."""
            return ""


@pytest.mark.parametrize("source", ["http://example.com/i.png", "javascript:alert(1)", "file:///etc/passwd"])
def test_an_icon_is_of_a_safe_address(source: str) -> None:
    with pytest.raises(InvalidTool, match="https"):

        @tool(icons=[mcp_types.Icon(src=source)])
        def shown() -> str:
            """Have an icon."""
            return ""
