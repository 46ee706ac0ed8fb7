"""Clients of other projects, in processes of their own: each lists, calls, cancels, subscribes and answers.

`mcp` 2.3, FastMCP's client 4.2, `@modelcontextprotocol/client` 2.4 and `@modelcontextprotocol/sdk` 1.32, in each era.
They connect over stdio, and over HTTP to a site on the embedded parts and to one on PostgreSQL and Redis, where Daphne
and uvicorn take requests in turn. `@modelcontextprotocol/sdk` does not have the modern era, and FastMCP's client does
not have `subscriptions/listen`.
"""

import json
from pathlib import Path

import pytest

from tests.acceptance.situations import COOPERATIVE, INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_cancelled, assert_stopped
from tests.acceptance.test_subscriptions import COUNTER
from tests.clients.conftest import Kept
from tests.clients.driver import ClientError, Driver
from tests.clients.programs import REVISIONS, WAYS, Way
from tests.everything.steps import append
from tests.support.site.inspector import Row
from tests.support.site.stack import Stack
from tests.support.waiting import eventually

SUBSCRIBING = [way for way in WAYS if way.subscribes]
ACCEPT = [{"action": "accept", "content": {"quantity": 2}}, {"action": "accept", "content": {"yes": True}}]


def asked(message: str, *fields: str) -> dict[str, object]:
    return {"asked": message, "fields": list(fields)}


def begin(client: Driver, tool: str, steps: Path) -> int:
    """Start a call, and return its number when the tool has begun to work."""
    number = client.begin("call", tool=tool, arguments={"seconds": LONG, "path": str(steps), "step": STEP})
    eventually(steps.exists, f"{tool} takes a step", within=30)
    return number


def ended(stack: Stack, tool: str) -> Row:
    """Wait for the end of the newest call of a tool, and return its row."""

    def found() -> Row | None:
        row = stack.inspector.row(tool=tool)
        return row if row is not None and row.ended else None

    row = eventually(found, f"{tool} ends")
    assert row is not None
    return row


def test_it_speaks_the_revision(way: Way, client: Driver) -> None:
    assert client.version == REVISIONS[way.era]


def test_it_lists(client: Driver) -> None:
    listed = client.ask("list")
    assert {"echo", "add", "sleep", "order"} <= set(listed["tools"])
    assert {COUNTER, "test://static-text"} <= set(listed["resources"])
    assert listed["templates"] == ["test://template/{id}/data"]
    assert "test_prompt_with_arguments" in listed["prompts"]


def test_it_calls(way: Way, client: Driver) -> None:
    assert client.call("echo", text="hellö")["text"] == "hellö"
    structured = 3 if way.era == "modern" else None  # the legacy era allows only objects; the text is the same
    assert client.call("add", a=1, b=2) == {"text": "3", "structured": structured, "isError": False}
    failed = client.call("test_error_handling")
    assert failed["isError"] is True
    assert failed["text"] == "This tool intentionally returns an error for testing"
    with pytest.raises(ClientError, match="no_such_tool"):
        client.call("no_such_tool")


def test_it_reads_resources_gets_prompts_and_completes_their_arguments(client: Driver) -> None:
    assert client.ask("read", uri="test://static-text") == "This is the content of the static text resource."
    assert json.loads(client.ask("read", uri="test://template/7/data"))["id"] == "7"
    prompt = "test_prompt_with_arguments"
    assert "arg1='paris'" in client.ask("prompt", name=prompt, arguments={"arg1": "paris", "arg2": "b"})
    assert client.ask("complete", prompt=prompt, argument={"name": "arg1", "value": "par"}) == ["paris", "party"]


def test_it_hears_of_progress_in_order_before_the_result(client: Driver, tmp_path: Path) -> None:
    # The tool waits until each report was heard: the official TypeScript client drops progress that it reads together
    # with the result.
    steps, heard = 5, tmp_path / "heard"
    number = client.begin("call", tool="heard_progress", arguments={"steps": steps, "path": str(heard)})
    for done in range(1, steps + 1):
        client.hear(lambda message, done=done: message.get("of") == number and message["progress"] == done)
        append(str(heard), ".")
    client.answer(number)
    told = [message for message in client.told if number in (message.get("of"), message.get("id"))]
    result = told.pop()
    assert result["value"]["text"] == "5 steps"
    assert [(message["progress"], message["total"]) for message in told] == [(done, 5) for done in range(1, 6)]
    sent_at = [float(message["message"]) for message in told]
    assert sent_at == sorted(sent_at)


@pytest.mark.parametrize(("tool", "stage"), [("sleep", COOPERATIVE), ("sleep_sync", INTERRUPT)])
def test_it_cancels_and_the_work_stops(
    way: Way, client: Driver, running_stack: Stack, tool: str, stage: int, tmp_path: Path
) -> None:
    steps = tmp_path / "steps"
    number = begin(client, tool, steps)
    client.cancel(number, "enough")
    with pytest.raises(ClientError):
        client.answer(number)
    row = ended(running_stack, tool)
    cause, reason = way.cancellation("enough")
    assert_cancelled(row, cause=cause, stage=stage, actor=way.actor, reason=reason)
    assert_stopped(row, steps)
    assert client.call("echo", text="next")["text"] == "next"


@pytest.mark.parametrize("way", SUBSCRIBING, ids=str, indirect=True, scope="session")
def test_it_subscribes_and_hears_of_changes(client: Driver) -> None:
    before = int(client.ask("read", uri=COUNTER))
    number = client.begin("subscribe", uri=COUNTER)
    client.hear(lambda message: message.get("of") == number and "subscribed" in message)
    since = len(client.told)
    client.call("trigger_change")
    client.hear(lambda message: message.get("changed") == "tools", since)
    client.call("move_counter", commit=True)
    client.hear(lambda message: message.get("changed") == COUNTER, since)
    assert int(client.ask("read", uri=COUNTER)) == before + 1
    client.cancel(number, "enough")
    client.hear(lambda message: message.get("id") == number)


def test_it_answers_what_it_is_asked(client: Driver, tmp_path: Path) -> None:
    since = len(client.told)
    client.ask("answer", answers=ACCEPT)
    assert client.call("order", path=str(tmp_path / "lines"))["text"] == "17: 2 small, accept"
    assert [message for message in client.told[since:] if "asked" in message] == [
        asked("How many, and how large?", "quantity", "size"),
        asked("2, really?", "yes"),
    ]


def test_it_answers_a_form_with_every_kind_of_choice(client: Driver) -> None:
    chosen = {
        "untitledSingle": "option1",
        "titledSingle": "value1",
        "legacyEnum": "opt1",
        "untitledMulti": ["option1", "option2"],
        "titledMulti": ["value1", "value3"],
    }
    client.ask("answer", answers=[{"action": "accept", "content": chosen}])
    text = client.call("test_elicitation_sep1330_enums")["text"]
    assert json.loads(text[text.index("{") :]) == chosen


def test_it_answers_what_a_prompt_asks(client: Driver) -> None:
    client.ask("answer", answers=[{"action": "accept", "content": {"context": "the sea"}}])
    assert "the sea" in client.ask("prompt", name="test_input_required_result_prompt", arguments={})


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_it_refuses_to_answer(client: Driver, action: str, tmp_path: Path) -> None:
    client.ask("answer", answers=[{"action": action}])
    assert client.call("order", path=str(tmp_path / "lines"))["text"] == f"17: {action}"


def test_it_leaves_and_the_work_stops(way: Way, kept: Kept, running_stack: Stack, tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    begin(kept.driver, "sleep_sync", steps)
    kept.leave()
    row = ended(running_stack, "sleep_sync")
    cause, reason = way.departure
    assert_cancelled(row, cause=cause, stage=INTERRUPT, actor=way.actor, reason=reason)
    assert_stopped(row, steps)
    running_stack.settle()
