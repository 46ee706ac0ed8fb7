"""Calls of a session whose client disconnects without cancelling, and reconnects or does not.

Source: 2025-11-25 basic/transports "Resumability and Redelivery".
"""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from mcp_app.lifecycle.sessions import call_connections
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from mcp_app.transport import shutdown
from mcp_app.transport.process import threads
from tests.support.asgi_client import run
from tests.support.failing_database import away_at_first
from tests.support.legacy_asgi_client import Client, Event, Stream, call, steps
from tests.support.worker import Worker, eventually, in_thread, row


async def left(request_id: UUID) -> Request:
    """Return the row, after the end of its client's connection was stored."""
    found: Request = await eventually(lambda: Request.objects.filter(pk=request_id, left_at__isnull=False).first())
    return found


@pytest.mark.fault("A15")
async def test_a_disconnect_does_not_cancel_and_the_rest_is_replayed_once_and_in_order(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1, 2)
    await answer.head()
    events = [await answer.next_event() for _ in range(2)]
    await answer.leave()
    assert (await left(request_id)).cancel_requested_at is None
    await worker.report(request_id, 3)
    resumed = await client.get(events[-1].id)
    await worker.report(request_id, 4)
    rest = [await resumed.next_event() for _ in range(3)]
    assert steps(events + rest) == [1, 2, 3, 4]
    assert (await row(request_id)).left_at is None
    await worker.finish(request_id)
    [final] = await resumed.events()
    assert final.message["id"] == 1
    assert (await row(request_id)).status == Status.COMPLETED


@pytest.mark.fault("D2")
async def test_a_client_that_left_while_the_database_was_away_is_known_to_have_left(
    worker: Worker, monkeypatch: Any
) -> None:
    monkeypatch.setattr(threads, "RETRY_SECONDS", 0.01)
    failures = away_at_first(monkeypatch, call_connections, "record_disconnect")
    client = await Client.opened()
    answer = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await answer.head()
    await answer.leave()
    assert (await left(request_id)).cancel_requested_at is None
    assert next(failures, None) is None


@pytest.mark.fault("A15")
async def test_what_ended_meanwhile_is_replayed_from_any_place(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1, 2)
    await worker.finish(request_id)
    await answer.head()
    events = await answer.events()
    for place, event in enumerate(events):
        again = await (await client.get(event.id)).events()
        assert again == events[place + 1 :]


async def test_a_resumed_stream_does_not_go_back(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 5)
    await answer.head()
    await answer.next_event()
    seen = await answer.next_event()
    await answer.leave()
    await worker.report(request_id, 3, 6)
    await worker.finish(request_id)
    assert steps(await (await client.get(seen.id)).events()) == [6]


async def test_a_stream_has_one_follower_the_last_that_came(worker: Worker) -> None:
    client = await Client.opened()
    first = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await first.head()
    seen = [await first.next_event() for _ in range(2)][-1]
    second = await client.get(seen.id)
    assert await first.events() == []
    third = await client.get(seen.id)
    assert await second.events() == []
    await worker.report(request_id, 2)
    await worker.finish(request_id)
    assert steps(await third.events()) == [2]


async def test_no_other_sessions_stream_can_be_resumed(worker: Worker) -> None:
    client, other = await Client.opened(), await Client.opened()
    answer = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await answer.head()
    seen = await answer.next_event()
    for last in (seen.id, f"{'0' * 32}.1", "x"):
        refused = await other.get(last)
        assert refused.status == 400
        assert json.loads(await refused.body())["error"]["code"] == -32600
    await worker.finish(request_id)


@pytest.mark.fault("A15")
async def test_a_call_that_nobody_comes_back_for_is_abandoned(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call())
    request_id = await worker.claim()
    await answer.leave()
    await left(request_id)
    await in_thread(rounds.supervise)
    assert (await row(request_id)).cancel_cause == ""
    await in_thread(Request.objects.update, left_at=timezone.now() - timedelta(days=1))
    await in_thread(rounds.supervise)
    assert (await row(request_id)).cancel_cause == Cause.ABANDONED
    await worker.finish(request_id, Status.CANCELLED)


async def test_a_call_whose_server_died_waits_for_its_client(worker: Worker) -> None:
    client = await Client.opened()
    await client.post(call())
    request_id = await worker.claim()
    await in_thread(Request.objects.update, server=UUID(int=1), submitted_at=timezone.now() - timedelta(days=1))
    await in_thread(rounds.supervise)
    found = await row(request_id)
    assert (found.cancel_cause, found.left_at is None) == ("", False)
    await worker.finish(request_id)


def test_a_server_that_stops_cuts_the_stream_and_the_call_goes_on(worker: Worker) -> None:
    async def before(client: Client) -> tuple[UUID, Event]:
        answer = await client.post(call(token="t"))
        request_id = await worker.claim()
        await worker.report(request_id, 1)
        await answer.head()
        events = [await answer.next_event() for _ in range(2)]
        await shutdown.drain()
        [cut] = await answer.events()
        assert (cut.retry, cut.message) == ("1000", None)
        return request_id, events[-1]

    async def after(client: Client, request_id: UUID, seen: Event) -> None:
        resumed = await client.get(seen.id)
        await worker.report(request_id, 2)
        await worker.finish(request_id)
        assert steps(await resumed.events()) == [2]

    client = Client()
    place: list[Any] = []

    async def first_process() -> None:
        await client.initialize()
        place.extend(await before(client))
        found = await row(place[0])
        assert (found.left_at is None, found.cancel_cause) == (False, "")

    run(first_process())
    run(after(client, *place))


async def test_a_server_that_stops_answers_a_client_that_cannot_come_back(worker: Worker) -> None:
    client = await Client.opened()
    answer: Stream = await client.post(call(), accept="application/json")
    request_id = await worker.claim()
    stopping = asyncio.create_task(shutdown.drain())
    await eventually(lambda: Request.objects.filter(pk=request_id, cancel_cause=Cause.SHUTDOWN).exists())
    await worker.finish(request_id, Status.CANCELLED)
    assert (await answer.json())["result"]["isError"]
    await stopping
