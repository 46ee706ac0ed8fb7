"""2026-07-28 basic/index "_meta": capabilities that turn out to be missing while a request is
served.
"""

import pytest

from mcp_app.models import Request
from mcp_app.protocol.tasks import CAPABILITY
from mcp_app.states import TaskMode
from mcp_app.tools import tool
from tests.support.asgi_client import META, call, message, post
from tests.support.worker import Worker, in_thread

pytestmark = pytest.mark.usefixtures("_tools")


DATA = {"requiredCapabilities": {"elicitation": {"form": {}}}}
LACKING = {"code": -32021, "message": "This call needs a client that declares it.", "data": DATA}


@pytest.fixture
def _tools(_empty: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0)

    @tool(task=TaskMode.WHEN_SLOW, task_after=0.0)
    def work() -> str:
        """Work."""
        return ""

    @tool(requires={"elicitation": {"form": {}}})
    def curious() -> str:
        """Ask."""
        return ""


async def test_a_tool_that_says_what_it_needs_is_not_begun_without_it(worker: Worker) -> None:
    refused = await post(call("curious", meta={"progressToken": 1}), accept="text/event-stream")
    error = (await refused.json())["error"]
    assert (refused.status, refused.headers["content-type"]) == (400, "application/json")
    assert (error["code"], error["data"]) == (-32021, DATA)
    assert not await in_thread(Request.objects.exists)


async def test_what_turns_out_to_be_needed_is_the_same_error_while_nothing_was_sent_and_on_a_stream(
    worker: Worker,
) -> None:
    client = await post(call())
    await worker.fail(await worker.claim(), {"cause": "protocol", **LACKING})
    assert (await client.json())["error"] == LACKING
    assert client.status == 400
    client = await post(call(meta={"progressToken": 1}))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await client.head()
    await worker.fail(request_id, {"cause": "protocol", **LACKING})
    *_, last = await client.rest()
    assert last["error"] == LACKING


async def test_a_task_fails_with_it(worker: Worker) -> None:
    knows = {META + "clientCapabilities": dict(CAPABILITY)}
    created = (await (await post(call(meta=knows))).json())["result"]
    await worker.fail(await worker.claim(), {"cause": "protocol", **LACKING})
    found = await (await post(message("tasks/get", meta=knows, taskId=created["taskId"]))).json()
    assert (found["result"]["status"], found["result"]["error"]) == ("failed", LACKING)
