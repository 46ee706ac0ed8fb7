"""2025-11-25 and earlier, prompts and resources that ask (client/elicitation, client/sampling,
client/roots).

They ask on the stream of their own POST. Another POST answers, to any process.
"""

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, Field

from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import ChangeVersion, ReadQuestion, Request
from mcp_app.prompts import CannotAsk, ReadContext, prompt
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.resources import resource
from mcp_app.transport import shutdown
from mcp_app.transport.legacy.asking_reads import UNANSWERED
from tests.support.asgi_client import run
from tests.support.legacy_asgi_client import Client, Stream, notification, request
from tests.support.stdio_client import connect
from tests.support.worker import eventually, in_thread
from tests.transport.legacy_questions import next_question, opened

pytestmark = pytest.mark.usefixtures("runs")


NEW = ("2025-06-18", "2025-11-25")


class Count(BaseModel):
    n: int = Field(ge=1, le=9)


def accepted(n: int) -> dict[str, Any]:
    return {"action": "accept", "content": {"n": n}}


@pytest.fixture
def runs() -> list[str]:
    """The runs of the prompts, in order."""
    runs: list[str] = []

    @prompt
    def plan(visit: ReadContext) -> str:
        runs.append("plan")
        number = visit.once("number", lambda: len(runs))
        first = visit.elicit("first", "How many?", Count)
        if first.content is None:
            return f"{number}: {first.action}"
        second = visit.elicit("second", f"And after {first.content.n}?", Count)
        return f"{number}: {first.content.n}, {second.action}"

    @prompt
    def guess(visit: ReadContext) -> str:
        try:
            return f"{len(visit.roots())} roots"
        except CannotAsk as error:
            return f"did without: {error}"

    @resource("notes://{day}")
    def notes(day: str, visit: ReadContext) -> str:
        return f"{day}: {visit.elicit('first', 'How many?', Count).action}"

    return runs


async def begun(client: Client, request_id: Any = 1) -> Stream:
    return await client.post(request("prompts/get", request_id, name="plan"))


async def said(stream: Stream) -> str:
    """Return the text of the prompt, the only message that is still to come."""
    [final] = [event.message for event in await stream.events() if event.message]
    return str(final["result"]["messages"][0]["content"]["text"])


def nothing_is_left() -> bool:
    left = ReadQuestion.objects.exists() or ChangeVersion.objects.filter(subject__startswith="read/").exists()
    return not left and not Request.objects.exists()


@pytest.mark.parametrize("version", NEW)
async def test_a_prompt_runs_again_with_each_answer(version: str, runs: list[str]) -> None:
    client = await opened(version)
    stream = await begun(client)
    first = await next_question(stream)
    assert first.message["params"]["message"] == "How many?"
    assert (await client.reply(first.message["id"], accepted(12))).status == 202
    again = await next_question(stream)
    assert re.search("How many[?]\n\n.*n: .*at most 9", again.message["params"]["message"])
    assert runs == ["plan"]
    await client.reply(again.message["id"], accepted(3))
    second = await next_question(stream)
    assert second.message["params"]["message"] == "And after 3?"
    await client.reply(first.message["id"], accepted(4))
    await client.reply(second.message["id"], {"action": "decline"})
    assert await said(stream) == "1: 3, decline"
    assert runs == ["plan"] * 3
    assert await in_thread(nothing_is_left)


async def test_a_resource_asks_as_well() -> None:
    client = await opened()
    stream = await client.post(request("resources/read", uri="notes://monday"))
    await client.reply((await next_question(stream)).message["id"], accepted(1))
    [final] = await stream.events()
    assert final.message["result"]["contents"][0]["text"] == "monday: accept"


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_roots_are_asked_in_every_revision_and_an_error_is_the_authors_to_catch(version: str) -> None:
    client = await opened(version)
    for answer, text in (
        ({"result": {"roots": [{"uri": "file:///a"}]}}, "1 roots"),
        (
            {"error": {"code": -32601, "message": "None here"}},
            "did without: .*roots/list .*None here",
        ),
    ):
        stream = await client.post(request("prompts/get", name="guess"))
        question = (await next_question(stream, "roots/list")).message["id"]
        await client.post({"jsonrpc": "2.0", "id": question, **answer})
        assert re.match(text, await said(stream))


async def test_only_the_session_that_is_asked_answers_and_once() -> None:
    client, other = await opened(), await opened()
    stream = await begun(client)
    question = (await next_question(stream)).message["id"]
    read = question.partition(".")[0]
    for stranger, name in ((other, question), (Client(), question), (client, f"{read}.7"), (client, "x.1")):
        assert (await stranger.reply(name, accepted(1))).status == 202
    assert await in_thread(ReadQuestion.objects.filter(answer__isnull=True).count) == 1
    await asyncio.gather(*(client.reply(question, {"action": "cancel"}) for _ in range(3)))
    assert await said(stream) == "1: cancel"


def test_an_answer_is_taken_by_another_process() -> None:
    client, question = Client(capabilities={"elicitation": {}}), []
    is_asked, is_answered = threading.Event(), threading.Event()

    async def first_process() -> None:
        await client.initialize()
        stream = await begun(client)
        question.append((await next_question(stream)).message["id"])
        is_asked.set()
        assert await said(stream) == "1: decline"

    async def second_process() -> None:
        assert await asyncio.to_thread(is_asked.wait, 10)
        assert (await client.reply(question[0], {"action": "decline"})).status == 202
        is_answered.set()

    other = threading.Thread(target=run, args=(second_process(),))
    other.start()
    run(first_process())
    other.join()
    assert is_answered.is_set()


@pytest.mark.parametrize("how", ["cancelled", "ended", "left"])
async def test_what_its_client_gives_up_ends_without_a_response(how: str) -> None:
    client = await opened()
    stream = await begun(client, request_id=7)
    question = await next_question(stream)
    if how == "left":
        await stream.leave()
    elif how == "cancelled":
        await client.post(notification("notifications/cancelled", requestId="7"))
        assert await in_thread(ReadQuestion.objects.count) == 1
        await client.post(notification("notifications/cancelled", requestId=7))
    else:
        await client.delete()
    if how != "left":
        [withdrawn] = await stream.events()
        assert withdrawn.message["params"]["requestId"] == question.message["id"]
    await eventually(nothing_is_left)
    told = await client.reply(question.message["id"], accepted(1))
    assert told.status == (404 if how == "ended" else 202)


async def test_what_nobody_answers_in_time_ends_and_is_taken_back(configure: Callable[..., None]) -> None:
    configure(MAX_INPUT_SECONDS=0.1)
    client = await opened()
    stream = await begun(client)
    question = await next_question(stream)
    withdrawn, final = await stream.events()
    assert withdrawn.message["method"] == "notifications/cancelled"
    assert withdrawn.message["params"]["requestId"] == question.message["id"]
    assert final.message["error"]["message"] == UNANSWERED
    assert await in_thread(nothing_is_left)


async def test_a_server_that_stops_says_so_and_takes_its_question_back() -> None:
    client = await opened()
    stream = await begun(client)
    await next_question(stream)
    await shutdown.drain()
    withdrawn, final = await stream.events()
    assert withdrawn.message["method"] == "notifications/cancelled"
    assert "shutting down" in final.message["error"]["message"]
    assert await in_thread(nothing_is_left)


async def test_a_caller_has_so_many_questions_open_and_no_more(configure: Callable[..., None]) -> None:
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=1)
    client = await opened()
    stream = await begun(client)
    question = await next_question(stream)
    refused = await begun(client, request_id=2)
    assert refused.status == 429
    await client.reply(question.message["id"], {"action": "decline"})
    assert await said(stream) == "1: decline"


async def test_what_is_too_much_to_keep_is_an_error(configure: Callable[..., None]) -> None:
    configure(MAX_REQUEST_STATE_BYTES=100)
    client = await opened()
    refused = await begun(client)
    assert b"-32603" in await refused.body()
    assert await in_thread(nothing_is_left)


async def test_a_client_that_cannot_be_asked_is_told_so() -> None:
    bare = await Client.opened()
    for client, accept in (
        (bare, "application/json, text/event-stream"),
        (Client(), "application/json, text/event-stream"),
        (await opened(), "application/json"),
        (await opened("2025-03-26"), "application/json, text/event-stream"),
    ):
        refused = await client.post(request("prompts/get", name="plan"), accept=accept)
        assert (await refused.body()).count(b"-32600") == 1


async def test_the_questions_of_a_dead_process_are_forgotten() -> None:
    client = await opened()
    stream = await begun(client)
    await next_question(stream)
    await in_thread(rounds.supervise)
    assert await in_thread(ReadQuestion.objects.count) == 1
    await in_thread(ReadQuestion.objects.update, server=uuid4())
    await in_thread(rounds.supervise)
    assert await in_thread(ReadQuestion.objects.count) == 0
    await stream.leave()


async def test_over_stdio_a_line_answers_on_the_same_connection_alone() -> None:
    async with connect() as client, connect() as other:
        for each in (client, other):
            await each.open_session(elicitation={})
        await client.send(request("prompts/get", 1, name="plan"))
        question = await client.receive()
        assert question["method"] == "elicitation/create"
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
        await other.send(answer)
        await other.ask_in_session("ping")
        assert await in_thread(ReadQuestion.objects.filter(answer__isnull=True).count) == 1
        await client.send(answer)
        assert (await client.receive())["result"]["messages"][0]["content"]["text"] == "1: decline"
        await client.send(request("prompts/get", 2, name="plan"))
        question = await client.receive()
        await client.cancel(2)
        taken_back = await client.receive()
        assert (taken_back["method"], taken_back["params"]["requestId"]) == (
            "notifications/cancelled",
            question["id"],
        )
        await eventually(nothing_is_left)
