"""2026-07-28 basic/transports/stdio.

Processes, their ends and printing tools are tested in `tests/acceptance/test_stdio.py`; calls,
subscriptions, limits and sessions over stdio in `tests/transport/test_stdio_….py`.
"""

import json

import pytest

from mcp_app.models import Request
from mcp_app.prompts import ReadContext, prompt
from mcp_app.protocol.inbound import classify_line
from mcp_app.states import Cause, Status
from mcp_app.tools import tool
from tests.support.asgi_client import META, call, message
from tests.support.stdio_client import Client, connect
from tests.support.worker import Worker, eventually, in_thread, row

pytestmark = pytest.mark.usefixtures("_offered")


ABLE = {META + "clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
TEXT = "one\ntwo\r\nthree\u2028four\u0085caf\u00e9 \U0001f600"
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def _offered(_empty: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0)

    @tool
    def work(text: str = "") -> str:
        """Work."""
        return text

    @prompt
    def echo(text: str) -> str:
        return text

    @prompt
    def curious(visit: ReadContext) -> str:
        return str(visit.elicit("n", "How many?", FORM).action) + str(visit.roots("roots"))


async def test_each_message_is_one_line_of_utf_8_whatever_it_holds(worker: Worker) -> None:
    async with connect() as client:
        body = message("prompts/get", TEXT, name="echo", arguments={"text": TEXT})
        await client.send(json.dumps(body, ensure_ascii=False).encode() + b"\n")
        answer = await client.receive()
        assert answer["id"] == TEXT
        assert answer["result"]["messages"][0]["content"]["text"] == TEXT
        await client.send(call(request_id=1, meta={"progressToken": TEXT}, text=TEXT))
        request_id = await worker.claim()
        assert (await row(request_id)).arguments == {"text": TEXT}
        await worker.report(request_id, 1, message=TEXT)
        assert (await client.receive())["params"]["message"] == TEXT
        await worker.finish(request_id, text=TEXT)
        assert (await client.receive())["result"]["content"][0]["text"] == TEXT


async def test_receiving_messages_no_request_is_written_to_a_client_that_is_asked(worker: Worker) -> None:
    async def asks(client: Client, body: dict[str, object]) -> None:
        await client.send(body)
        if body["method"] == "tools/call":
            assert await worker.ask(await worker.claim(), n="How many?") == Status.INPUT_REQUIRED
        answer = await client.receive()
        assert answer["id"] == body["id"]
        assert answer["result"]["resultType"] == "input_required"
        assert "method" not in answer

    async with connect() as client:
        await asks(client, call(request_id=1, meta=ABLE))
        await asks(client, message("prompts/get", 2, meta=ABLE, name="curious"))
        assert "result" in await client.ask("server/discover", 3)


async def test_cancellation_a_call_that_is_cancelled_before_it_is_stored_is_not_heard_of(worker: Worker) -> None:
    async with connect() as client:
        await client.send(
            call(request_id=7, meta={"progressToken": 1}),
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}},
            message("server/discover", 8),
        )
        assert (await client.receive())["id"] == 8
        await eventually(lambda: not Request.objects.exclude(status=Status.CANCELLED).exists())
        assert "result" in await client.ask("server/discover", 9)
    causes = await in_thread(lambda: set(Request.objects.values_list("cancel_cause", flat=True)))
    assert causes <= {Cause.CLIENT}


def test_request_metadata_is_in_the_body_and_nowhere_else() -> None:
    line = json.dumps(message("tools/call", name="work")).encode()
    route = classify_line(line)
    assert (route.method, route.metadata.protocol_version) == ("tools/call", "2026-07-28")
