"""Rejections under load: 429 if the caller exceeds its limit, 503 if the server does, with a correct `Retry-After`."""

import asyncio
import json
import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import Request
from mcp_app.protocol.legacy.inbound import MAX_BATCH
from mcp_app.states import CancelPolicy
from mcp_app.transport.server import current
from tests.support.asgi_client import Connection, call, message, post
from tests.support.legacy_asgi_client import Client, notification, request
from tests.support.worker import Worker, eventually, in_thread

STRANGER = Principal(issuer="elsewhere", subject="1", client_id="", label="stranger")


def submission(principal: Principal = ANONYMOUS) -> Submission:
    """Return a call that another server process received."""
    return Submission(
        jsonrpc_id=1,
        tool="work",
        arguments={},
        protocol_version="2026-07-28",
        principal=principal,
        cancel_policy=CancelPolicy.INTERRUPT,
        cooperative_grace=0.1,
        hard_grace=1.0,
        time_limit=60.0,
        queue="mcp",
        server=uuid.uuid4(),
    )


async def refused(client: Connection, status: int, *, within: range = range(1, 2)) -> dict[str, Any]:
    """Check the status, the code (outside the reserved ranges) and `Retry-After`, and return the response."""
    answer = await client.json()
    assert (client.status, answer["error"]["code"]) == (status, status)
    assert int(client.headers["retry-after"]) in within
    assert answer["error"]["data"] == {"retryAfter": int(client.headers["retry-after"])}
    return dict(answer)


async def answered(client: Connection) -> bool:
    return "result" in await client.json()


async def test_a_caller_who_asks_too_often_is_told_to_wait_and_served_when_it_has(configure) -> None:
    configure(REQUEST_BURST=3, REQUEST_RATE=1.0)
    for _ in range(3):
        assert await answered(await post(message("tools/list")))
    error = await refused(await post(message("tools/list")), 429)
    assert "id" not in error  # the body was not read
    await asyncio.sleep(1)
    assert await answered(await post(message("tools/list")))


@pytest.mark.fault("B10")
async def test_B10_notifications_count_and_discover_is_answered_all_the_same(configure) -> None:
    configure(REQUEST_BURST=3, REQUEST_RATE=0.001)
    body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).encode()
    statuses = []
    for _ in range(5):
        client = Connection()
        await client.send(body)
        await client.head()
        statuses.append(client.status)
    assert statuses == [202, 202, 202, 429, 429]
    assert client.headers["retry-after"] == "1000"
    for _ in range(5):
        assert await answered(await post(message("server/discover")))


async def test_what_only_says_that_it_is_discover_is_not_served(configure) -> None:
    configure(REQUEST_BURST=1, REQUEST_RATE=0.001)
    assert await answered(await post(message("tools/list")))
    lying = await post(call(), headers={"Mcp-Method": "server/discover"})
    assert (await lying.json())["error"]["code"] == -32020
    assert not await in_thread(Request.objects.exists)


async def test_what_is_no_modern_request_is_not_let_in_as_discover(configure) -> None:
    client = await Client.opened()
    configure(REQUEST_BURST=1, REQUEST_RATE=0.001)
    lying = {"Mcp-Method": "server/discover"}
    statuses = [(await client.post(request("tools/list"), lying)).status for _ in range(2)]
    statuses.append((await client.post(notification("notifications/initialized"), lying)).status)
    statuses.append((await client.get(headers=lying)).status)
    assert statuses == [200, 429, 429, 429]


async def test_anonymous_callers_are_told_apart_by_their_addresses(configure) -> None:
    configure(REQUEST_BURST=1, REQUEST_RATE=0.001)
    admission = current().admission
    assert admission.refuse_request(replace(ANONYMOUS, network="192.0.2.1")) is None
    assert admission.refuse_request(replace(ANONYMOUS, network="192.0.2.1")) is not None
    assert admission.refuse_request(replace(ANONYMOUS, network="192.0.2.2")) is None
    assert admission.refuse_request(STRANGER) is None
    assert admission.refuse_request(STRANGER) is not None


async def test_a_process_with_as_many_requests_as_it_serves_at_once_refuses_more(worker: Worker, configure) -> None:
    configure(MAX_OPEN_REQUESTS=2)
    stream = await post(message("subscriptions/listen", notifications={"toolsListChanged": True}))
    await stream.head()
    first, second = await post(call()), await post(call(request_id=2))
    claimed = [await worker.claim(), await worker.claim()]
    await refused(await post(message("tools/list")), 503)
    assert await answered(await post(message("server/discover")))
    for request_id in claimed:
        await worker.finish(request_id)
    assert await answered(first)
    assert await answered(second)
    assert await answered(await post(message("tools/list")))
    await stream.leave()


async def test_a_queue_that_is_full_takes_more_once_a_worker_has_taken_some(worker: Worker, configure) -> None:
    configure(MAX_QUEUED_REQUESTS=1)
    first = await post(call())
    waiting = await worker.receive()
    error = await refused(await post(call(request_id=2)), 503)
    assert error["id"] == 2
    assert await in_thread(transitions.claim, waiting, worker=worker.identity.boot_id, pid=1) is not None
    second = await post(call(request_id=2))
    for request_id in (waiting, await worker.claim()):
        await worker.finish(request_id)
    assert await answered(first)
    assert await answered(second)


async def test_a_callers_calls_are_counted_over_all_processes(worker: Worker, configure) -> None:
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=2)
    here = replace(ANONYMOUS, network="192.0.2.1")
    elsewhere = [await in_thread(transitions.submit, submission(here)) for _ in range(2)]
    await in_thread(transitions.submit, submission(STRANGER))
    await refused(await post(call()), 429)
    # A call that became a task does not count as an open call. Tasks have their own limit.
    assert await in_thread(task_handles.hand_over, elsewhere[0].pk) is not None
    client = await post(call())
    await worker.finish(await worker.claim())
    assert await answered(client)


def test_counting_what_is_open_reads_no_row() -> None:
    connection = databases.connection()
    with CaptureQueriesContext(connection) as captured:
        assert capacity.exceeded_limit(ANONYMOUS) is None
    [query] = captured.captured_queries
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            looks = [row[3] for row in cursor.fetchall() if "mcp_app_request" in row[3]]
        assert len(looks) == 3
        assert all("USING COVERING INDEX" in look for look in looks), looks


async def test_bodies_that_are_too_much_together_are_refused_and_held_no_longer_than_they_are_read(
    worker: Worker, configure
) -> None:
    configure(MAX_HELD_BODY_BYTES=100_000)
    waiting = await post(call(text="x" * 500))
    request_id = await worker.claim()
    assert current().admission.body_bytes == 0
    first = Connection()
    await first.send(b" " * 90_000, more=True)
    second = Connection()
    await second.send(b" " * 90_000, more=True)
    await refused(second, 503)
    small = Connection()
    await small.send(b" " * 20_000, more=True)
    admission = current().admission
    await eventually(lambda: admission.body_bytes == 110_000)
    await small.leave()
    await first.leave()
    assert current().admission.body_bytes == 0
    assert await answered(await post(message("tools/list", padding="x" * 700)))
    await worker.finish(request_id)
    assert await answered(waiting)


async def test_a_legacy_client_is_refused_for_load_in_the_same_way(worker: Worker, configure) -> None:
    client = await Client.opened("2025-11-25")
    configure(REQUEST_BURST=1, REQUEST_RATE=0.001)
    await client.post(notification("notifications/cancelled", requestId=1))
    over = await client.post(request("ping"))
    error = json.loads(await over.body())["error"]
    assert (over.status, error["code"]) == (429, 429)
    assert int(over.headers["retry-after"]) == error["data"]["retryAfter"] > 1


@pytest.mark.fault("F4")
async def test_F4_a_batch_of_as_many_messages_as_may_be_is_served_and_one_more_is_not() -> None:
    client = await Client.opened("2025-03-26")
    pings = [request("ping", number) for number in range(MAX_BATCH + 1)]
    served = await client.post(pings[:-1], accept="application/json")
    assert len(json.loads(await served.body())) == MAX_BATCH
    over = await client.post(pings)
    error = json.loads(await over.body())["error"]
    assert (over.status, error["code"]) == (400, -32600)
    assert str(MAX_BATCH) in error["message"]
