"""2026-07-28 server/tools. The catalogue's tests cover how values become results."""

from typing import Any

import pytest
from pydantic import BaseModel

from mcp_app.catalogue import results, tool_rows
from mcp_app.catalogue.errors import InvalidResult, InvalidTool
from mcp_app.catalogue.registry import registered_tools
from mcp_app.models import Request, Tool
from mcp_app.states import Status
from mcp_app.tools import tool
from tests.interaction.answers import exchange, rejected_with, result_of
from tests.support.asgi_client import call, message, post
from tests.support.worker import Worker, in_thread

pytestmark = pytest.mark.usefixtures("_tools")


class Total(BaseModel):
    total: int


@pytest.fixture
def _tools(work_tool: None) -> None:
    @tool
    def add(first: int, second: int = 0) -> Total:
        """Add."""
        return Total(total=first + second)

    @tool(name="Work.of-Art_1")
    def other() -> None:
        """Do nothing."""


def test_listing_is_the_same_for_every_connection_and_in_one_order_over_all_pages(configure) -> None:
    configure(PAGE_SIZE=2)
    for _ in range(2):
        first = result_of("tools/list")
        second = result_of("tools/list", cursor=first["nextCursor"])
        names = [each["name"] for page in (first, second) for each in page["tools"]]
        assert names == sorted(["work", "add", "Work.of-Art_1"])
        assert "nextCursor" not in second


def test_input_schemas_are_of_objects_and_without_parameters_closed() -> None:
    listed = {each["name"]: each["inputSchema"] for each in result_of("tools/list")["tools"]}
    assert listed["work"] == {"type": "object", "additionalProperties": False}
    assert (listed["add"]["type"], listed["add"]["required"]) == ("object", ["first"])


@pytest.mark.parametrize("name", ["", "a" * 129, "two words", "naïve", "a,b", "a/b"])
def test_names_are_of_128_plain_characters(name: str) -> None:
    with pytest.raises(InvalidTool):
        tool(name=name)(lambda: "")


def test_names_are_unique_and_tell_cases_apart() -> None:
    tool(name="WORK", description="Shout.")(lambda: "")
    with pytest.raises(InvalidTool):
        tool(name="work", description="Again.")(lambda: "")


async def test_error_handling_protocol_errors(worker: Worker) -> None:
    await in_thread(tool_rows.sync)
    await in_thread(Tool.objects.filter(name="Work.of-Art_1").update, enabled=False)
    for name in ("unknown", "Work", "Work.of-Art_1", ""):
        body = message("tools/call", name=name, arguments={})
        assert await rejected_with(body, {"Mcp-Name": name}) == (200 if name else 400, -32602 if name else -32020)
    for params in ({"arguments": []}, {"arguments": "x"}, {"arguments": 0}):
        assert await rejected_with(message("tools/call", name="work", **params)) == (200, -32602)
    assert worker.idle()
    assert not await in_thread(Request.objects.exists)


async def test_error_handling_arguments_that_do_not_fit_are_for_the_model_to_mend(worker: Worker) -> None:
    for arguments in ({}, {"first": "one"}, {"first": 1, "third": 3}, {"first": None}):
        status, answer = await exchange(call("add", **arguments))
        assert status == 200
        assert answer["result"]["isError"] is True
        assert answer["result"]["content"][0]["text"]
    assert worker.idle()


async def test_error_handling_a_failure_of_the_tool_is_a_result_and_one_of_the_protocol_an_error(
    worker: Worker,
) -> None:
    client = await post(call())
    await worker.finish(await worker.claim(), Status.FAILED)
    assert (await client.json())["result"]["isError"] is True
    client = await post(call())
    await worker.fail(await worker.claim(), {"cause": "protocol", "code": -32603, "message": "Not now."})
    assert (await client.json())["error"] == {"code": -32603, "message": "Not now."}
    assert client.status == 200


async def test_error_handling_a_protocol_error_ends_a_stream_that_was_begun(worker: Worker) -> None:
    client = await post(call(meta={"progressToken": 0}))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await client.head()
    assert (await client.next_message())["method"] == "notifications/progress"
    await worker.fail(request_id, {"cause": "protocol", "code": -32603, "message": "No more of this."})
    [final] = await client.rest()
    assert final["error"] == {"code": -32603, "message": "No more of this."}


def test_structured_content_is_repeated_as_text_and_holds_its_nulls() -> None:
    assert results.to_result(registered_tools()["add"], Total(total=3)) == {
        "content": [{"type": "text", "text": '{"total": 3}'}],
        "structuredContent": {"total": 3},
    }
    assert results.to_result(registered_tools()["Work.of-Art_1"], {"a": None})["structuredContent"] == {"a": None}
    assert results.to_result(registered_tools()["Work.of-Art_1"], None) == {"content": []}


@pytest.mark.parametrize("value", [{"total": "three"}, {}, "three"])
def test_output_schema_a_result_that_contradicts_it_is_the_server_s_failure(value: Any) -> None:
    with pytest.raises(InvalidResult):
        results.to_result(registered_tools()["add"], value)


async def test_security_calls_are_limited(worker: Worker, configure) -> None:
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=1)
    client = await post(call())
    request_id = await worker.claim()
    over = await post(call(request_id=2))
    assert (await over.json())["error"]["code"] == 429
    assert (over.status, over.headers["retry-after"]) == (429, "1")
    await worker.finish(request_id)
    await client.json()


def test_security_outputs_are_made_safe() -> None:
    text = results.to_result(registered_tools()["work"], "a\x00b\ud800c")["content"][0]["text"]
    assert text == "a\ufffdb\ufffdc"
    told = results.failure_result(ZeroDivisionError("/srv/secret.py"))["content"][0]["text"]
    assert "secret" not in told
