"""Prompts that ask an older client, and their questions when something interrupts them."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone

from mcp_app.lifecycle.input import read_questions
from mcp_app.lifecycle.sessions import sessions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import ReadQuestion, Session
from mcp_app.prompts import Form, ReadContext, prompt
from mcp_app.transport import shutdown
from mcp_app.transport.legacy.asking_reads import AskingRead
from mcp_app.transport.server import current
from mcp_app.transport.stdio.connection import MAX_CONCURRENT_ANSWERS
from tests.support.asgi_client import PATIENCE
from tests.support.legacy_asgi_client import Client, notification, request
from tests.support.stdio_client import connect
from tests.support.worker import NUMBER, eventually, in_thread
from tests.transport.legacy_questions import TEN, next_question, opened

pytestmark = pytest.mark.usefixtures("_prompts")


GET = request("prompts/get", name="survey")


@pytest.fixture
def _prompts(_tools: None) -> None:
    @prompt
    def survey(visit: ReadContext) -> str:
        return f"{len(visit.roots())} roots"

    @prompt
    def numbers(visit: ReadContext) -> str:
        questions = {key: Form(f"{key}?", NUMBER) for key in ("a", "b")}
        return ", ".join(answer.action for answer in visit.ask(**questions).values())


def nothing_is_asked() -> bool:
    return not ReadQuestion.objects.exists()


async def test_a_client_that_leaves_while_its_question_is_noted_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, forgotten, noted = threading.Event(), threading.Event(), threading.Event()
    ask, forget = read_questions.ask, read_questions.forget

    def late(*args: Any, **options: Any) -> None:
        begun.set()
        forgotten.wait(0.2)  # as if a thread were slow or a lock taken
        ask(*args, **options)
        noted.set()

    def told(*args: Any) -> None:
        forget(*args)
        forgotten.set()

    monkeypatch.setattr(read_questions, "ask", late)
    monkeypatch.setattr(read_questions, "forget", told)
    client = await opened()
    stream = await client.begin(GET)
    await in_thread(begun.wait, PATIENCE)
    await stream.leave()
    assert await in_thread(noted.wait, PATIENCE)
    await eventually(nothing_is_asked)


async def test_what_is_refused_while_it_asks_takes_back_what_it_still_asked(configure: Callable[..., None]) -> None:
    client = await opened()
    stream = await client.post(request("prompts/get", name="numbers"))
    first, second = await next_question(stream), await next_question(stream)
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=1)
    await client.reply(first.message["id"], TEN)
    withdrawn, final = await stream.events()
    assert withdrawn.message["method"] == "notifications/cancelled"
    assert withdrawn.message["params"]["requestId"] == second.message["id"]
    assert "answer those first" in final.message["error"]["message"]
    await eventually(nothing_is_asked)


async def test_over_stdio_what_lost_its_questions_has_an_answer(configure: Callable[..., None]) -> None:
    configure(KEEP_ALIVE=0.05)
    async with connect() as client:
        await client.open_session(roots={})
        await client.send(GET)
        assert (await client.receive())["method"] == "roots/list"
        # As if the computer had slept: other processes consider this one dead.
        await in_thread(ReadQuestion.objects.update, server=uuid4())
        await in_thread(rounds.supervise)
        assert (await client.receive())["method"] == "notifications/cancelled"
        answer = await client.receive()
        assert (answer["id"], answer["error"]["code"]) == (GET["id"], -32603)


async def test_a_session_whose_user_thinks_is_neither_expired_nor_displaced(configure: Callable[..., None]) -> None:
    configure(MAX_SESSIONS_PER_PRINCIPAL=1)
    client = await opened()
    stream = await client.post(GET)
    question = await next_question(stream, "roots/list")
    await in_thread(Session.objects.update, seen_at=timezone.now() - timedelta(days=30))
    await in_thread(sessions.expire)
    error = (await Client().initialize())["error"]
    assert error["code"] == 429
    assert "busy sessions" in error["message"]
    assert (await client.reply(question.message["id"], {"roots": []})).status == 202
    [final] = await stream.events()
    assert "0 roots" in str(final.message["result"])


async def test_a_question_that_could_not_be_forgotten_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(read: object) -> None:
        raise OperationalError("the database is away")

    client = await opened()
    stream = await client.post(GET)
    await next_question(stream, "roots/list")
    with monkeypatch.context() as patched:
        patched.setattr(read_questions, "forget", away)
        await stream.leave()
    await in_thread(rounds.supervise)
    assert not await in_thread(nothing_is_asked)
    await in_thread(ReadQuestion.objects.update, asked_at=timezone.now() - timedelta(days=1))
    await in_thread(rounds.supervise)
    assert await in_thread(nothing_is_asked)


async def test_a_client_that_floods_with_answers_over_stdio_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most = [0], [0]
    counting = threading.Lock()
    answer = read_questions.answer

    def counted(*args: Any, **options: Any) -> None:
        with counting:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        try:
            answer(*args, **options)
        finally:
            with counting:
                at_once[0] -= 1

    monkeypatch.setattr(read_questions, "answer", counted)
    async with connect() as client:
        await client.open_session(roots={})
        await client.send(GET)
        question = await client.receive()
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}
        await client.send(*[reply] * 40)
        assert "0 roots" in str((await client.receive())["result"])
        assert (await client.ask_in_session("ping"))["result"] == {}
    assert most[0] <= MAX_CONCURRENT_ANSWERS


async def test_a_server_that_stops_asks_nothing_more() -> None:
    running, goes_on = threading.Event(), threading.Event()

    @prompt
    def slow(visit: ReadContext) -> str:
        running.set()
        goes_on.wait(PATIENCE)
        return f"{len(visit.roots())} roots"

    client, admission = await opened(), current().admission
    stream = await client.begin(request("prompts/get", name="slow"))
    assert await in_thread(running.wait, PATIENCE)
    draining = asyncio.create_task(shutdown.drain())
    await eventually(lambda: admission.draining)
    goes_on.set()
    assert "shutting down" in (await stream.json())["error"]["message"]
    assert stream.status == 503
    await draining


@pytest.mark.parametrize("request_id", [7, "7"], ids=repr)
async def test_a_read_that_is_cancelled_before_it_asks_ends_without_a_response_and_asks_nothing(
    request_id: Any,
) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @prompt
    def slow(visit: ReadContext) -> str:
        begun.set()
        assert go_on.wait(PATIENCE)
        try:
            return f"{len(visit.roots())} roots"
        finally:
            ended.set()

    client = await opened()
    stream = await client.begin(request("prompts/get", request_id, name="slow"))
    assert await in_thread(begun.wait, PATIENCE)
    for other in (8, "8", "7" if request_id == 7 else 7):
        assert (await client.post(notification("notifications/cancelled", requestId=other))).status == 202
    assert not stream.finished
    assert (await client.post(notification("notifications/cancelled", requestId=request_id))).status == 202
    await stream.head()
    assert [event.message for event in await stream.events() if event.message] == []
    go_on.set()
    assert await in_thread(ended.wait, PATIENCE)
    assert await in_thread(nothing_is_asked)


async def test_a_read_that_is_cancelled_while_it_ends_is_cancelled_once() -> None:
    begun, go_on = threading.Event(), threading.Event()

    @prompt
    def slow() -> str:
        begun.set()
        assert go_on.wait(PATIENCE)
        return ""

    client = await opened()
    stream = await client.begin(request("prompts/get", name="slow"))
    assert await in_thread(begun.wait, PATIENCE)
    [reading] = current().admission.asking.open
    assert isinstance(reading, AskingRead)
    for _ in range(9):
        reading.cancel()
        await asyncio.sleep(0)
    go_on.set()
    await stream.head()
    assert [event.message for event in await stream.events() if event.message] == []
