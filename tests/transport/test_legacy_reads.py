"""Prompts that ask an older client, and what becomes of their questions when something comes in between."""

import threading
from typing import Any

import pytest

from mcp_app.lifecycle import read_questions
from mcp_app.models import ReadQuestion
from mcp_app.prompts import Visit, prompt
from tests.transport.client import PATIENCE, run
from tests.transport.legacy_client import request
from tests.transport.legacy_questions import opened
from tests.transport.worker import eventually, in_thread

GET = request("prompts/get", name="survey")


@pytest.fixture(autouse=True)
def _prompts(_tools: None) -> None:
    @prompt
    def survey(visit: Visit) -> str:
        return f"{len(visit.roots())} roots"


def nothing_is_asked() -> bool:
    return not ReadQuestion.objects.exists()


def test_a_client_that_leaves_while_its_question_is_noted_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, forgotten, noted = threading.Event(), threading.Event(), threading.Event()
    ask, forget = read_questions.ask, read_questions.forget

    def late(*args: Any, **options: Any) -> None:
        begun.set()
        forgotten.wait(0.2)  # as when a thread is slow, or a lock is taken
        ask(*args, **options)
        noted.set()

    def told(*args: Any) -> None:
        forget(*args)
        forgotten.set()

    monkeypatch.setattr(read_questions, "ask", late)
    monkeypatch.setattr(read_questions, "forget", told)

    async def scenario() -> None:
        client = await opened()
        stream = await client.begin(GET)
        await in_thread(begun.wait, PATIENCE)
        await stream.leave()
        assert await in_thread(noted.wait, PATIENCE)
        await eventually(nothing_is_asked)

    run(scenario())
