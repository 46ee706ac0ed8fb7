"""2025-11-25 and earlier, server/tools "Error Handling", in a session."""

import pytest

from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import Status
from tests.support.legacy_asgi_client import Client, call
from tests.support.worker import Worker, row

pytestmark = pytest.mark.usefixtures("work_tool")


WRONG = {"code": -32603, "message": "It cannot be served."}


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_a_protocol_error_of_a_tool_is_an_error_and_no_result(worker: Worker, version: str) -> None:
    client = await Client.opened(version)
    answer = await client.post(call(request_id="a"))
    request_id = await worker.claim()
    assert await worker.fail(request_id, {"cause": "protocol", **WRONG}) == Status.FAILED
    assert await answer.json() == {"jsonrpc": "2.0", "id": "a", "error": WRONG}
    assert answer.status == 200


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_on_a_stream_it_is_the_last_event_and_can_be_resumed(worker: Worker, version: str) -> None:
    client = await Client.opened(version)
    answer = await client.post(call(request_id="a", token=0))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await answer.head()
    while (event := await answer.next_event()).message is None:
        pass
    await worker.fail(request_id, {"cause": "protocol", **WRONG})
    [last] = await answer.events()
    assert last.message == {"jsonrpc": "2.0", "id": "a", "error": WRONG}
    [again] = [each for each in await (await client.get(event.id)).events() if each.message]
    assert again == last
    assert (await row(request_id)).status == Status.FAILED
