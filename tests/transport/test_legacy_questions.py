"""Calls of a session ask by requests on their stream.

A POST answers, once and in that session only.

Source: 2025-11-25 basic/transports, client/elicitation, client/sampling, client/roots.
"""

import asyncio

import pytest

from mcp_app.catalogue.input import questions
from mcp_app.catalogue.input.questions import Roots, Sampling
from mcp_app.lifecycle.input import input_rounds
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import Status
from tests.support.legacy_asgi_client import Client, call, notification, request
from tests.support.worker import Worker, in_thread, row
from tests.transport.legacy_questions import TEN, THREE, next_question, opened, start_asking_call, status_of

NEW = ("2025-06-18", "2025-11-25")


@pytest.mark.parametrize("version", NEW)
async def test_a_form_is_asked_on_the_stream_and_its_answer_runs_the_tool_again(worker: Worker, version: str) -> None:
    client = await opened(version)
    request_id, stream = await start_asking_call(client, worker, "n", request_id="a", token="t")
    event = await next_question(stream)
    assert event.message["params"]["message"] == "n?"
    assert ("mode" in event.message["params"]) == (version == "2025-11-25")
    assert event.id
    told = await client.reply(event.message["id"], THREE)
    assert told.status == 202
    assert await worker.claim() == request_id
    stored = await row(request_id)
    assert (stored.answers, stored.jsonrpc_id, stored.progress_token) == ({"n": THREE}, "a", "t")
    assert stored.client_capabilities["elicitation"] == ({"form": {}, "url": {}} if version == "2025-11-25" else {})
    await worker.report(request_id, 1)
    await worker.finish(request_id)
    events = await stream.events()
    assert [event.message["method"] for event in events[:-1]] == ["notifications/progress"]
    assert events[-1].message["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_a_sample_and_roots_are_asked_in_every_revision(worker: Worker, version: str) -> None:
    client = await opened(version)
    stream = await client.post(call())
    request_id = await worker.claim()
    needed = {"sample": Sampling("Hello?", max_tokens=9).request(), "roots": Roots().request()}
    await in_thread(input_rounds.ask, request_id, needed, worker=worker.identity.boot_id)
    await stream.head()
    sample, roots = await next_question(stream, "sampling/createMessage"), await next_question(stream, "roots/list")
    assert sample.message["params"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello?"}}]
    said = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}
    await client.reply(sample.message["id"], said)
    assert await status_of(request_id) == Status.INPUT_REQUIRED
    folders = {"roots": [{"uri": "file:///a"}]}
    await client.reply(roots.message["id"], folders)
    assert await worker.claim() == request_id
    assert (await row(request_id)).answers == {"sample": said, "roots": folders}
    await worker.finish(request_id)


async def test_what_does_not_fit_is_asked_again_and_the_rest_is_kept(worker: Worker) -> None:
    client = await opened()
    request_id, stream = await start_asking_call(client, worker, "a", "b")
    first, second = await next_question(stream), await next_question(stream)
    await client.reply(first.message["id"], TEN)
    again = await next_question(stream)
    asked, told = again.message["params"]["message"].split("\n\n")
    assert asked == "a?"
    assert all(fact in told for fact in ("not valid", "n:"))
    assert again.message["id"] != first.message["id"]
    for late in (first, first):
        await client.reply(late.message["id"], THREE)
    assert (await row(request_id)).answers == {}
    await client.reply(second.message["id"], {"action": "decline"})
    await client.reply(again.message["id"], THREE)
    await worker.claim()
    assert (await row(request_id)).answers == {"a": THREE, "b": {"action": "decline"}}
    await worker.finish(request_id)
    assert len([event for event in await stream.events() if event.message]) == 1


async def test_an_error_and_a_malformed_answer_are_kept_as_errors(worker: Worker) -> None:
    client = await opened()
    request_id, stream = await start_asking_call(client, worker, "a", "b")
    first, second = await next_question(stream), await next_question(stream)
    await client.reply(first.message["id"], error={"code": -1, "message": "User rejected"})
    await client.reply(second.message["id"], {"action": "perhaps"})
    await worker.claim()
    answers = (await row(request_id)).answers
    assert questions.error_in(answers["a"]) == "The client answered elicitation/create with an error: User rejected"
    assert questions.error_in(answers["b"]).startswith(
        "The client answered elicitation/create with an unexpected result"
    )
    await worker.finish(request_id)


async def test_an_answer_counts_in_its_session_alone_and_once(worker: Worker) -> None:
    client, other = await opened(), await opened()
    request_id, stream = await start_asking_call(client, worker, "n")
    question = (await next_question(stream)).message["id"]
    before = await row(request_id)
    place, _, number = question.partition(".")
    strangers = [
        await other.reply(question, THREE),
        await Client().reply(question, THREE),
        *[
            await client.reply(made_up, THREE)
            for made_up in (f"{place}.{int(number) + 1}", f"{'0' * 32}.{number}", "listen.1", "x", 1, "")
        ],
    ]
    assert {told.status for told in strangers} == {202}
    assert (await row(request_id)).event_seq == before.event_seq
    await asyncio.gather(*(client.reply(question, THREE) for _ in range(3)))
    await worker.claim()
    assert await in_thread(worker.idle)
    await worker.finish(request_id)


async def test_answers_are_taken_out_of_a_batch_and_a_member_of_one_may_ask(worker: Worker) -> None:
    client = await opened("2025-03-26")
    stream = await client.post([call(request_id=1), request("ping", 2)])
    request_id = await worker.claim()
    roots = {"a": Roots().request()}
    await in_thread(input_rounds.ask, request_id, roots, worker=worker.identity.boot_id)
    await stream.head()
    while (message := (await stream.next_event()).message).get("method") != "roots/list":
        assert message == {"jsonrpc": "2.0", "id": 2, "result": {}}
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}}
    told = await client.post([answer, notification("notifications/initialized")])
    assert told.status == 202
    await worker.claim()
    await worker.finish(request_id)
    assert "result" in (await stream.events())[-1].message


async def test_a_client_that_takes_no_stream_or_has_no_session_is_not_asked(worker: Worker) -> None:
    client = await opened()
    for caller, accept in ((client, "application/json"), (Client(), "application/json, text/event-stream")):
        needing = await caller.post(call("inquisitive"), accept=accept)
        assert (await needing.json())["error"]["code"] == -32600
        stream = await caller.post(call(), accept=accept)
        request_id = await worker.claim()
        assert (await row(request_id)).client_capabilities == {}
        await worker.finish(request_id)
        await stream.json()


async def test_what_only_modern_clients_bring_is_not_looked_at(worker: Worker) -> None:
    client = await opened()
    body = call()
    body["params"] |= {"requestState": "forged", "inputResponses": {"n": THREE}}
    stream = await client.post(body)
    request_id = await worker.claim()
    assert (await row(request_id)).answers == {}
    await worker.finish(request_id)
    assert "result" in await stream.json()
