"""Calls of a session: its client leaves without cancelling, comes back for the rest, and cancels by saying so.

Source: 2025-11-25 basic/transports "Resumability and Redelivery", basic/utilities/cancellation.
"""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from mcp_app.lifecycle import cancellation, supervision
from mcp_app.lifecycle.audit import Actor
from mcp_app.models import Cancellation, Request
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import Cause, Outcome, Status
from mcp_app.transport import shutdown
from tests.transport.client import run
from tests.transport.legacy_client import BOTH, Client, Event, Stream, call, notification
from tests.transport.worker import Worker, eventually, in_thread, row


def steps(events: list[Event]) -> list[float]:
    """The progress that these events tell."""
    messages = [event.message for event in events if event.message]
    return [message["params"]["progress"] for message in messages if "method" in message]


async def left(request_id: UUID) -> Request:
    """The row, once its client's connection is known to have ended."""
    found: Request = await eventually(lambda: Request.objects.filter(pk=request_id, left_at__isnull=False).first())
    return found


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
def test_a_quick_call_is_answered_as_json(worker: Worker, version: str) -> None:
    async def scenario() -> None:
        client = await Client.opened(version, sampling={})
        answer = await client.post(call(request_id="a", text="hi"))
        request_id = await worker.claim()
        await worker.finish(request_id)
        result = await answer.json()
        assert result == {"jsonrpc": "2.0", "id": "a", "result": {"content": [{"type": "text", "text": "done"}]}}
        stored = await row(request_id)
        assert (stored.protocol_version, stored.session.hex) == (version, client.session)
        assert (stored.client_capabilities, stored.client_info["name"]) == ({"sampling": {}}, "test")

    run(scenario())


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
def test_a_stream_has_ids_and_begins_as_its_revision_says(worker: Worker, version: str) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_disconnect_does_not_cancel_and_the_rest_is_replayed_once_and_in_order(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_what_ended_meanwhile_is_replayed_from_any_place(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_resumed_stream_does_not_go_back(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_stream_has_one_follower_the_last_that_came(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_no_other_sessions_stream_can_be_resumed(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_call_that_nobody_comes_back_for_is_abandoned(worker: Worker) -> None:
    async def scenario() -> None:
        client = await Client.opened()
        answer = await client.post(call())
        request_id = await worker.claim()
        await answer.leave()
        await left(request_id)
        await in_thread(supervision.supervise)
        assert (await row(request_id)).cancel_cause == ""
        await in_thread(Request.objects.update, left_at=timezone.now() - timedelta(days=1))
        await in_thread(supervision.supervise)
        assert (await row(request_id)).cancel_cause == Cause.ABANDONED
        await worker.finish(request_id, Status.CANCELLED)

    run(scenario())


def test_a_call_whose_server_died_waits_for_its_client(worker: Worker) -> None:
    async def scenario() -> None:
        client = await Client.opened()
        await client.post(call())
        request_id = await worker.claim()
        await in_thread(Request.objects.update, server=UUID(int=1), submitted_at=timezone.now() - timedelta(days=1))
        await in_thread(supervision.supervise)
        found = await row(request_id)
        assert (found.cancel_cause, found.left_at is None) == ("", False)
        await worker.finish(request_id)

    run(scenario())


@pytest.mark.parametrize(
    ("accept", "streaming", "status"), [(BOTH, True, 200), (BOTH, False, 200), ("application/json", False, 202)]
)
def test_cancelled_ends_the_calls_stream_without_a_response(
    worker: Worker, accept: str, streaming: bool, status: int
) -> None:
    async def scenario() -> None:
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
            assert (answer.status, "content-type" in answer.headers) == (
                (200, True) if "event" in accept else (202, False)
            )
        stopped = await row(request_id)
        assert (stopped.cancel_cause, stopped.cancel_reason) == (Cause.CLIENT, "no more")
        assert (stopped.cancel_actor, stopped.left_at) == ("anonymous", None)
        await worker.finish(request_id, Status.CANCELLED)
        [attempt] = await in_thread(lambda: list(Cancellation.objects.all()))
        assert (attempt.cause, attempt.outcome, attempt.actor_address) == (Cause.CLIENT, Outcome.ACCEPTED, "192.0.2.1")

    run(scenario())


@pytest.mark.parametrize("params", [{"requestId": "7"}, {"requestId": 8}, {"requestId": None}, {}, {"requestId": [7]}])
def test_a_cancellation_of_nothing_is_ignored(worker: Worker, params: dict[str, Any]) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_an_administrators_cancellation_is_told(worker: Worker) -> None:
    async def scenario() -> None:
        client = await Client.opened()
        answer = await client.post(call())
        request_id = await worker.claim()
        await in_thread(cancellation.cancel, request_id, cause=Cause.ADMIN, actor=Actor("root"))
        await worker.finish(request_id, Status.CANCELLED)
        assert (await answer.json())["result"]["isError"]

    run(scenario())


def test_an_id_in_flight_is_refused_and_free_afterwards(worker: Worker) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_session_has_so_many_calls_in_flight_and_no_more(worker: Worker, configure: Any) -> None:
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=2)

    async def scenario() -> None:
        client = await Client.opened()
        for number in range(2):
            answer = await client.post(call(request_id=number))
            await worker.receive()
            await answer.leave()
        refused = await client.post(call(request_id=2))
        assert (await refused.json())["error"]["code"] == 429
        await client.delete()

    run(scenario())


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


def test_a_server_that_stops_answers_a_client_that_cannot_come_back(worker: Worker) -> None:
    async def scenario() -> None:
        client = await Client.opened()
        answer: Stream = await client.post(call(), accept="application/json")
        request_id = await worker.claim()
        stopping = asyncio.create_task(shutdown.drain())
        await eventually(lambda: Request.objects.filter(pk=request_id, cancel_cause=Cause.SHUTDOWN).exists())
        await worker.finish(request_id, Status.CANCELLED)
        assert (await answer.json())["result"]["isError"]
        await stopping

    run(scenario())


def test_what_the_modern_era_checks_in_headers_is_not_asked_for(worker: Worker) -> None:
    async def scenario() -> None:
        client = await Client.opened()
        answer = await client.post(call("regional", region="eu"))
        await worker.finish(await worker.claim())
        assert "result" in await answer.json()
        unknown = await client.post(call("nothing"))
        assert (await unknown.json())["error"]["code"] == -32602
        assert unknown.status == 200
        needing = await client.post(call("inquisitive"))
        assert (await needing.json())["error"]["code"] == -32600

    run(scenario())
