"""Several messages in one POST (2025-03-26 basic/transports, basic/index "Batching")."""

import json
from typing import Any

import pytest

from mcp_app.models import Request
from mcp_app.states import Cause, Status
from tests.support.legacy_asgi_client import Client, call, notification, request
from tests.support.worker import Worker, in_thread, row

OLDEST = "2025-03-26"


def by_id(answers: list[Any]) -> dict[Any, Any]:
    assert len({answer["id"] for answer in answers}) == len(answers)
    return {answer["id"]: answer for answer in answers}


@pytest.mark.fault("F4")
async def test_every_request_is_answered_in_one_array() -> None:
    client = await Client.opened(OLDEST)
    batch = [request("ping", 1), notification("notifications/x"), request("tools/list", "1"), request("no", 2)]
    answer = await client.post(batch, accept="application/json")
    answers = by_id(json.loads(await answer.body()))
    assert answers[1]["result"] == {}
    assert answers["1"]["result"]["tools"]
    assert answers[2]["error"]["code"] == -32601


async def test_calls_are_answered_on_one_stream_as_they_end(worker: Worker) -> None:
    client = await Client.opened(OLDEST)
    answer = await client.post([call(request_id=1, token="t"), call(request_id=2), request("ping", 3)])
    first, second = await worker.claim(), await worker.claim()
    ids = {first: (await row(first)).jsonrpc_id, second: (await row(second)).jsonrpc_id}
    with_token = next(pk for pk, jsonrpc_id in ids.items() if jsonrpc_id == 1)
    await worker.report(with_token, 1)
    for request_id in ids:
        await worker.finish(request_id)
    await answer.head()
    messages = [event.message for event in await answer.events()]
    assert [message["params"]["progress"] for message in messages if "method" in message] == [1]
    assert by_id([message for message in messages if "id" in message]).keys() == {1, 2, 3}


async def test_a_batch_of_notifications_is_accepted() -> None:
    client = await Client.opened(OLDEST)
    answer = await client.post([notification("notifications/x"), {"jsonrpc": "2.0", "id": 1, "result": {}}])
    assert (answer.status, await answer.body()) == (202, b"")


async def test_one_of_a_batch_is_cancelled_and_the_others_are_answered(worker: Worker) -> None:
    client = await Client.opened(OLDEST)
    answer = await client.post([call(request_id=1), call(request_id=2)], accept="application/json")
    claimed = {(await row(pk)).jsonrpc_id: pk for pk in (await worker.claim(), await worker.claim())}
    await client.post(notification("notifications/cancelled", requestId=1))
    await worker.finish(claimed[1], Status.CANCELLED)
    await worker.finish(claimed[2])
    await answer.head()
    assert by_id(json.loads(await answer.body())).keys() == {2}


async def test_without_a_session_leaving_cancels_every_call_of_a_batch(worker: Worker) -> None:
    answer = await Client(OLDEST).post([call(request_id=1), call(request_id=2)])
    claimed = [await worker.claim(), await worker.claim()]
    await answer.leave()
    causes = await in_thread(lambda: set(Request.objects.values_list("cancel_cause", flat=True)))
    assert causes == {Cause.DISCONNECT}
    for request_id in claimed:
        await worker.finish(request_id, Status.CANCELLED)


@pytest.mark.fault("F4")
async def test_what_cannot_be_a_batch_is_refused() -> None:
    client = await Client.opened(OLDEST)
    newer = await Client.opened("2025-06-18")
    for refused in (
        await client.post([]),
        await client.post([request("initialize"), request("ping", 2)]),
        await newer.post([request("ping")]),
        await newer.post([request("ping")], {"MCP-Protocol-Version": ""}),
    ):
        assert (refused.status, json.loads(await refused.body())["error"]["code"]) == (400, -32600)


async def test_the_unreadable_members_are_answered_like_the_others() -> None:
    client = await Client.opened(OLDEST)
    answer = await client.post([request("ping"), 5, {"jsonrpc": "1.0", "id": 9, "method": "ping"}])
    messages = [event.message for event in await answer.events()]
    assert [message.get("id") for message in messages if "error" in message] == [None, 9]
    assert any(message.get("result") == {} for message in messages)
