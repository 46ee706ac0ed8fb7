"""Questions to clients of 2025-11-25, with real processes. Any server takes the answer, and can repeat the question."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.site.layouts import two_servers
from tests.support.site.legacy_wire import Client, Event, asked, events
from tests.support.site.stack import Stack
from tests.support.site.wire import text

TWO = {"action": "accept", "content": {"quantity": 2}}
YES = {"action": "accept", "content": {"yes": True}}


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    client = Client.opened(stack, stack.servers[0], elicitation={})
    yield client
    # Otherwise the session's calls would go on.
    assert client.delete(stack.servers[0]) in (200, 404)


def result_of(stream: Iterator[Event | None]) -> str:
    """Return the text of the call's result, which must be the only message that is left."""
    [final] = [event.message for event in stream if event and event.message]
    return str(text(final["result"]))


def test_an_answer_is_taken_by_the_other_process(stack: Stack, client: Client, tmp_path: Path) -> None:
    with two_servers(stack) as (first, other):
        path = tmp_path / "lines"
        call = client.call("order", first, path=str(path))
        stream = events(call)
        question = asked(stream)
        assert stack.row(call).status == "input_required"
        assert client.reply(question, other, {"action": "accept", "content": {"quantity": 10}}) == 202
        again = asked(stream)
        assert again.message is not None
        assert "not valid" in again.message["params"]["message"]
        assert client.reply(again, other, TWO) == 202
        assert client.reply(asked(stream), first, YES) == 202
        assert result_of(stream) == "17: 2 small, accept"
        assert path.read_text().split() == ["run", "reserved", "run", "run"]
        assert stack.ended(call).status == "completed"


def test_a_question_is_asked_again_where_the_client_comes_back(stack: Stack, client: Client, tmp_path: Path) -> None:
    [server, *others] = stack.start_extra_servers()
    for other in others:
        other.stop()
    call = client.call("order", server, path=str(tmp_path / "lines"))
    stream = events(call)
    prime = next(event for event in stream if event)
    question = asked(stream)
    server.program.kill()
    call.close()
    first = stack.servers[0]
    resumed = events(client.get(first, prime.id or ""))
    assert asked(resumed) == question
    assert client.reply(question, first, TWO) == 202
    sure = asked(resumed)
    assert client.reply(sure, first, YES) == 202
    assert result_of(resumed) == "17: 2 small, accept"
    assert stack.ended(call).status == "completed"


def test_another_sessions_answer_has_no_effect(stack: Stack, client: Client, tmp_path: Path) -> None:
    other = Client.opened(stack, stack.servers[0], elicitation={})
    for server in stack.servers:
        call = client.call("order", server, path=str(tmp_path / f"lines{server.port}"))
        stream = events(call)
        question = asked(stream)
        assert other.reply(question, server, TWO) == 202
        assert stack.row(call).status == "input_required"
        assert client.reply(question, server, {"action": "decline"}) == 202
        assert result_of(stream) == "17: decline"
    assert other.delete(stack.servers[0]) == 200


def test_a_prompt_that_asks_is_answered_at_the_other_process(stack: Stack, client: Client) -> None:
    with two_servers(stack) as (first, other):
        stream = events(client.request("prompts/get", first, name="test_input_required_result_prompt"))
        question = asked(stream)
        assert client.reply(question, other, {"action": "accept", "content": {"context": "the moon"}}) == 202
        [final] = [event.message for event in stream if event and event.message]
        assert "the moon" in final["result"]["messages"][0]["content"]["text"]


def test_a_call_that_asks_is_cancelled_at_once(stack: Stack, client: Client, tmp_path: Path) -> None:
    call = client.call("order", stack.servers[0], path=str(tmp_path / "lines"))
    stream = events(call)
    asked(stream)
    stack.ask("cancel", request_id=stack.row(call).id, reason="closing time")
    asked(stream, "notifications/cancelled")
    told = result_of(stream)
    assert all(fact in told for fact in ("cancelled", "administrator", "closing time"))
    assert stack.ended(call).status == "cancelled"
