"""Calls of a session: notifications, responses and cancellation.

Source: 2025-11-25 basic/transports "Sending Messages to the Server", basic/utilities/cancellation.
"""

from typing import Any

import pytest

from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.models import Cancellation
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import Cause, Outcome, Status
from tests.support.legacy_asgi_client import BOTH, Client, call, notification, steps
from tests.support.worker import Worker, in_thread, row


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_a_quick_call_is_answered_as_json(worker: Worker, version: str) -> None:
    client = await Client.opened(version, sampling={})
    answer = await client.post(call(request_id="a", text="hi"))
    request_id = await worker.claim()
    await worker.finish(request_id)
    result = await answer.json()
    assert result == {"jsonrpc": "2.0", "id": "a", "result": {"content": [{"type": "text", "text": "done"}]}}
    stored = await row(request_id)
    assert (stored.protocol_version, stored.session.hex) == (version, client.session)
    assert (stored.client_capabilities, stored.client_info["name"]) == ({"sampling": {}}, "test")


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_a_stream_has_ids_and_begins_as_its_revision_says(worker: Worker, version: str) -> None:
    client = await Client.opened(version)
    answer = await client.post(call(token=0))
    request_id = await worker.claim()
    await worker.report(request_id, 1, 2)
    await answer.head()
    assert answer.headers["content-type"] == "text/event-stream"
    if version == "2025-11-25":
        prime = await answer.next_event()
        assert (prime.message, prime.retry) == (None, "1000")
        assert prime.id
    await worker.finish(request_id)
    events = await answer.events()
    assert steps(events) == [1, 2]
    assert events[-1].message["result"]["content"][0]["text"] == "done"
    ids = [event.id for event in events]
    assert len(set(ids)) == 3
    assert all(ids)


@pytest.mark.parametrize(
    ("accept", "streaming", "status"), [(BOTH, True, 200), (BOTH, False, 200), ("application/json", False, 202)]
)
async def test_cancelled_ends_the_calls_stream_without_a_response(
    worker: Worker, accept: str, streaming: bool, status: int
) -> None:
    client = await Client.opened()
    answer = await client.post(call(request_id=7, token="t"), accept=accept)
    request_id = await worker.claim()
    if streaming:
        await worker.report(request_id, 1)
        await answer.head()
        assert [await answer.next_event() for _ in range(2)]
    told = await client.post(notification("notifications/cancelled", requestId=7, reason="no more"))
    assert told.status == 202
    if not streaming:
        await answer.head()
    assert await answer.events() == []
    if not streaming:
        assert (answer.status, "content-type" in answer.headers) == ((200, True) if "event" in accept else (202, False))
    stopped = await row(request_id)
    assert (stopped.cancel_cause, stopped.cancel_reason) == (Cause.CLIENT, "no more")
    assert (stopped.cancel_actor, stopped.left_at) == ("anonymous", None)
    await worker.finish(request_id, Status.CANCELLED)
    [attempt] = await in_thread(lambda: list(Cancellation.objects.all()))
    assert (attempt.cause, attempt.outcome, attempt.actor_address) == (Cause.CLIENT, Outcome.ACCEPTED, "192.0.2.1")


@pytest.mark.fault("B6")
@pytest.mark.parametrize("params", [{"requestId": "7"}, {"requestId": 8}, {"requestId": None}, {}, {"requestId": [7]}])
async def test_a_cancellation_of_nothing_is_ignored(worker: Worker, params: dict[str, Any]) -> None:
    client, other = await Client.opened(), await Client.opened()
    answer = await client.post(call(request_id=7))
    request_id = await worker.claim()
    accepted = [
        await client.post(notification("notifications/cancelled", **params)),
        await other.post(notification("notifications/cancelled", requestId=7)),
        await Client().post(notification("notifications/cancelled", requestId=7)),
    ]
    assert [told.status for told in accepted] == [202, 202, 202]
    assert (await row(request_id)).cancel_requested_at is None
    await worker.finish(request_id)
    assert "result" in await answer.json()


async def test_an_administrators_cancellation_is_told(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call())
    request_id = await worker.claim()
    await in_thread(cancellation.cancel, request_id, cause=Cause.ADMIN, actor=Actor("root"))
    await worker.finish(request_id, Status.CANCELLED)
    assert (await answer.json())["result"]["isError"]


async def test_an_id_in_flight_is_refused_and_free_afterwards(worker: Worker) -> None:
    client = await Client.opened()
    first = await client.post(call(request_id=1))
    request_id = await worker.claim()
    again = await client.post(call(request_id=1))
    assert (await again.json())["error"]["code"] == -32600
    assert again.status == 400
    text = await client.post(call(request_id="1"))
    await worker.finish(await worker.claim())
    assert (await text.json())["id"] == "1"
    await worker.finish(request_id)
    await first.json()
    once_more = await client.post(call(request_id=1))
    await worker.finish(await worker.claim())
    assert "result" in await once_more.json()


async def test_a_session_has_so_many_calls_in_flight_and_no_more(worker: Worker, configure: Any) -> None:
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=2)
    client = await Client.opened()
    for number in range(2):
        answer = await client.post(call(request_id=number))
        await worker.receive()
        await answer.leave()
    refused = await client.post(call(request_id=2))
    assert (await refused.json())["error"]["code"] == 429
    await client.delete()


async def test_what_the_modern_era_checks_in_headers_is_not_asked_for(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call("regional", region="eu"))
    await worker.finish(await worker.claim())
    assert "result" in await answer.json()
    unknown = await client.post(call("nothing"))
    assert (await unknown.json())["error"]["code"] == -32602
    assert unknown.status == 200
    needing = await client.post(call("inquisitive"))
    assert (await needing.json())["error"]["code"] == -32600


@pytest.mark.parametrize("how", ["at once", "on a stream", "after coming back"])
async def test_a_protocol_error_is_no_result(worker: Worker, how: str) -> None:
    error = {"code": -32603, "message": "No more of this."}
    client = await Client.opened()
    stream = await client.post(call(token="t"))
    request_id = await worker.claim()
    if how != "at once":
        await worker.report(request_id, 1)
        await stream.head()
        prime = await stream.next_event()
    if how == "after coming back":
        await stream.leave()
        stream = await client.get(prime.id)
    await worker.fail(request_id, {"cause": "protocol", **error})
    if how == "at once":
        answer = await stream.json()
    else:
        answer = (await stream.events())[-1].message
    assert (answer["id"], answer["error"]) == (1, error)
