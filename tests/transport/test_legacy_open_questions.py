"""Calls of a session with open questions: disconnected, resumed, cancelled, or never answered.

Source: 2025-11-25 basic/transports "Resumability and Redelivery", basic/utilities/cancellation,
client/elicitation.
"""

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from mcp_app.catalogue.input.questions import Link, Page
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.input import input_rounds, visits
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from mcp_app.transport import shutdown
from tests.support.asgi_client import run
from tests.support.legacy_asgi_client import Client, call, notification
from tests.support.worker import Worker, in_thread, row
from tests.transport.legacy_questions import TEN, THREE, next_question, opened, start_asking_call, status_of


async def test_a_resumed_stream_sends_again_what_was_not_seen_and_is_not_answered(worker: Worker) -> None:
    client = await opened()
    request_id, stream = await start_asking_call(client, worker, "a", "b", "c", token="t")
    events = [await next_question(stream) for _ in range(3)]
    await stream.leave()
    await client.reply(events[2].message["id"], THREE)
    resumed = await client.get(events[0].id)
    assert await next_question(resumed) == events[1]
    await client.reply(events[0].message["id"], TEN)
    again = await next_question(resumed)
    await resumed.leave()
    newest = await client.get(events[1].id)
    assert await next_question(newest) == again
    await client.reply(again.message["id"], THREE)
    await client.reply(events[1].message["id"], THREE)
    await worker.claim()
    await worker.report(request_id, 1)
    await worker.finish(request_id)
    rest = await newest.events()
    assert [event.message.get("method") for event in rest] == ["notifications/progress", None]


def test_another_process_sends_what_is_asked_and_takes_the_answer(worker: Worker) -> None:
    client, found = Client(capabilities={"elicitation": {}}), []

    async def first_process() -> None:
        await client.initialize()
        request_id, stream = await start_asking_call(client, worker, "n")
        prime = await stream.next_event()
        found.extend([request_id, prime, await next_question(stream)])
        await shutdown.drain()
        [cut] = await stream.events()
        assert cut.retry

    async def second_process() -> None:
        request_id, prime, event = found
        resumed = await client.get(prime.id)
        assert await next_question(resumed) == event
        await client.reply(event.message["id"], THREE)
        assert await worker.claim() == request_id
        await worker.finish(request_id)
        assert [each.message["id"] for each in await resumed.events()] == [1]

    run(first_process())
    run(second_process())


@pytest.mark.parametrize("client_asked", [True, False])
async def test_a_call_that_is_cancelled_while_it_asks_ends_and_takes_its_questions_back(
    worker: Worker, client_asked: bool
) -> None:
    client = await opened()
    request_id, stream = await start_asking_call(client, worker, "a", "b", request_id=7)
    first, second = await next_question(stream), await next_question(stream)
    await client.reply(first.message["id"], THREE)
    if client_asked:
        await client.post(notification("notifications/cancelled", requestId=7))
    else:
        await in_thread(cancellation.cancel, request_id, cause=Cause.ADMIN, actor=Actor("root"))
    withdrawn, *final = await stream.events()
    assert withdrawn.message["method"] == "notifications/cancelled"
    assert withdrawn.message["params"]["requestId"] == second.message["id"]
    assert [event.message["result"]["isError"] for event in final] == ([] if client_asked else [True])
    assert await status_of(request_id) == Status.CANCELLED
    assert (await client.reply(second.message["id"], THREE)).status == 202
    assert (await row(request_id)).answers == {"a": THREE}


async def test_a_question_that_nobody_answers_ends_at_its_deadline(worker: Worker) -> None:
    client = await opened()
    request_id, stream = await start_asking_call(client, worker, "n")
    question = await next_question(stream)
    await in_thread(Request.objects.update, deadline_at=timezone.now() - timedelta(days=1))
    await in_thread(rounds.supervise)
    withdrawn, final = await stream.events()
    assert withdrawn.message["params"]["requestId"] == question.message["id"]
    assert "question" in final.message["result"]["content"][0]["text"]
    assert (await row(request_id)).cancel_cause == Cause.DEADLINE


async def test_a_page_of_this_site_is_answered_by_what_is_done_there(worker: Worker) -> None:
    client = await opened()
    stream = await client.post(call(token="t"))
    request_id = await worker.claim()
    url = f"https://example.com/sign/?{urlencode({'visit': visits.token(request_id, 'page')})}"
    page = {"page": Page("Sign there.", url, []).request()}
    await in_thread(input_rounds.ask, request_id, page, worker=worker.identity.boot_id)
    await stream.head()
    event = await next_question(stream)
    params = event.message["params"]
    assert (params["mode"], params["url"]) == ("url", url)
    await client.reply(event.message["id"], {"action": "accept"})
    assert await status_of(request_id) == Status.INPUT_REQUIRED
    assert await in_thread(visits.finish, request_id, "page", {"signed": True})
    told = await next_question(stream, "notifications/elicitation/complete")
    assert told.message["params"] == {"elicitationId": params["elicitationId"]}
    assert await worker.claim() == request_id
    answered = await row(request_id)
    assert (answered.answers, answered.visited) == ({"page": {"action": "accept"}}, {"page": {"signed": True}})
    await client.reply(event.message["id"], {"action": "decline"})
    await worker.report(request_id, 1)
    await worker.finish(request_id)
    events = await stream.events()
    assert [each.message.get("method") for each in events] == ["notifications/progress", None]
    again = await (await client.get(event.id)).events()
    assert again == [told, *events]


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_another_address_is_answered_by_its_user(worker: Worker, action: str) -> None:
    client = await opened()
    stream = await client.post(call())
    request_id = await worker.claim()
    link = {"link": Link("Read this.", "https://example.com/terms").request()}
    await in_thread(input_rounds.ask, request_id, link, worker=worker.identity.boot_id)
    await stream.head()
    await client.reply((await next_question(stream)).message["id"], {"action": action})
    assert await worker.claim() == request_id
    assert (await row(request_id)).answers == {"link": {"action": action}}
    await worker.finish(request_id)
