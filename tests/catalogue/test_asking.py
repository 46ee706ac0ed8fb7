"""Questions from prompts and resources.

A run is replayed with the known answers, and ends if one is missing.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from pydantic import BaseModel, Field

from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue import completion, reads
from mcp_app.catalogue.input.asking import MAX_KEY_CHARS, InputNeeded, Known
from mcp_app.prompts import Answer, CannotAsk, Form, InputRequired, ReadContext, Roots, prompt
from mcp_app.protocol.revisions import MODERN
from mcp_app.resources import resource

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
DECLINED = {"action": "decline"}


class Count(BaseModel):
    n: int = Field(ge=1, le=9)


def accepted(n: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"n": n}}


def how_many(visit: ReadContext) -> Answer[Count]:
    return visit.elicit("count", "How many?", Count)


def known(answers: Any = None, capabilities: Any = EVERYTHING) -> Known:
    return Known(MODERN, capabilities, answers or {})


def play(function: Callable[[ReadContext], Any], answers: Any = None, capabilities: Any = EVERYTHING) -> Any:
    """Return the result of a run, or its questions."""
    visit = ReadContext(ANONYMOUS).to_run(known(answers, capabilities))
    try:
        return function(visit)
    except InputRequired as error:
        return visit.ended_by(error)


def test_a_question_without_an_answer_ends_the_run_with_it() -> None:
    asked = play(how_many)
    assert asked == InputNeeded({"count": Form("How many?", Count).request()}, {})


def test_an_answer_is_given_at_once_as_an_object_of_its_model() -> None:
    assert play(how_many, {"count": accepted(3)}) == Answer("accept", Count(n=3))
    assert play(how_many, {"count": DECLINED}) == Answer("decline")


@pytest.mark.parametrize(
    ("answer", "reasons"), [(accepted(10), ["n: ", "at most 9"]), (12345, []), ({"action": "maybe"}, []), (None, [])]
)
def test_what_does_not_fit_is_asked_again_with_the_reason_if_it_is_an_answer_at_all(
    answer: Any, reasons: list[str]
) -> None:
    message = play(how_many, {"count": answer}).questions["count"]["params"]["message"]
    question, *added = message.split("\n\n")
    assert (question, bool(added)) == ("How many?", bool(reasons))
    assert all(reason in added[0] for reason in reasons)


def test_several_are_asked_in_one_round_and_only_those_that_are_missing() -> None:
    def both(visit: ReadContext) -> str:
        found = visit.ask(count=Form("How many?", Count), where=Roots())
        return f"{found['count'].action}, {len(found['where'])} folders"

    assert list(play(both).questions) == ["count", "where"]
    assert list(play(both, {"count": DECLINED}).questions) == ["where"]
    assert play(both, {"count": DECLINED, "where": {"roots": []}}) == "decline, 0 folders"


def test_every_method_asks_what_it_says() -> None:
    def asked(function: Callable[[ReadContext], Any]) -> tuple[str, Any]:
        [question] = play(function).questions.values()
        return question["method"], question["params"].get("mode")

    assert asked(how_many) == ("elicitation/create", "form")
    assert asked(lambda visit: visit.elicit_url("page", "Sign.", "https://a.example/")) == ("elicitation/create", "url")
    assert asked(lambda visit: visit.sample("said", "Hello?", max_tokens=9)) == ("sampling/createMessage", None)
    assert asked(lambda visit: visit.roots()) == ("roots/list", None)


def test_what_was_done_once_is_not_done_in_the_runs_that_follow() -> None:
    done: list[str] = []

    async def do_later() -> int:
        done.append("later")
        return 2

    async def later(visit: ReadContext) -> int:
        return await visit.aonce("later", do_later)

    def twice(visit: ReadContext) -> Any:
        first = visit.once("first", lambda: done.append("first") or {"n": 1})
        return first, asyncio.run(later(visit)), how_many(visit).action

    asked = play(twice)
    assert asked.kept == {"first": {"n": 1}, "later": 2}
    again = ReadContext(ANONYMOUS).to_run(Known(MODERN, EVERYTHING, {"count": DECLINED}, asked.kept))
    assert twice(again) == ({"n": 1}, 2, "decline")
    assert done == ["first", "later"]


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}], ids=["an object", "NaN", "a set"])
def test_what_is_done_once_returns_plain_json(value: Any) -> None:
    with pytest.raises(TypeError, match=r"once\('key'\) .*JSON"):
        play(lambda visit: visit.once("key", lambda: value))


def test_a_key_names_one_question() -> None:
    def twice(visit: ReadContext) -> None:
        how_many(visit)
        visit.elicit("count", "How much?", Count)

    with pytest.raises(ValueError, match=r"'count' .*two"):
        play(twice, {"count": DECLINED})
    size = f"1 to {MAX_KEY_CHARS}"
    for key, rule in (("", size), ("k" * (MAX_KEY_CHARS + 1), size), ("count~2", "tilde")):
        with pytest.raises(ValueError, match=rule):
            play(lambda visit, key=key: visit.roots(key))


def test_a_client_that_cannot_be_asked_is_said_to_lack_what_it_lacks() -> None:
    with pytest.raises(CannotAsk, match="elicitation form") as lacking:
        play(how_many, capabilities={"elicitation": {"url": {}}, "sampling": {}})
    assert "session" not in str(lacking.value)
    assert lacking.value.required == {"elicitation": {"form": {}}}


def test_a_page_of_the_site_is_for_tools() -> None:
    with pytest.raises(RuntimeError, match="elicit_url"):
        play(lambda visit: visit.elicit_page("page", "Sign.", "home"))


def test_who_lists_completes_or_decides_may_not_ask() -> None:
    def available(visit: ReadContext) -> bool:
        return how_many(visit).accepted

    def complete(value: str, context: Any, visit: ReadContext) -> list[str]:
        return [how_many(visit).action]

    prompt(name="decided", available=available)(lambda: "")
    resource("x://{a}", completions={"a": complete})(lambda a: a)
    for asked in (
        lambda: reads.get_prompt("decided", {}, ANONYMOUS, known()),
        lambda: reads.prompts_page(None, ANONYMOUS),
        lambda: completion.complete_template("x://{a}", "a", "", {}, ANONYMOUS),
    ):
        with pytest.raises(RuntimeError, match=r"prompt .*resource"):
            asked()


async def coroutine(visit: ReadContext) -> str:
    return how_many(visit).action


async def in_a_task_group(visit: ReadContext) -> str:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine(visit)) for _ in range(2)]
    return tasks[0].result()


async def in_a_thread(visit: ReadContext) -> str:
    return str((await sync_to_async(how_many)(visit)).action)


@pytest.mark.parametrize("function", [coroutine, in_a_task_group, in_a_thread])
def test_an_async_function_asks_as_a_plain_one_does(function: Any) -> None:
    prompt(name="p")(function)
    resource("x://a")(function)

    def outcomes(answers: Any) -> list[Any]:
        made = reads.get_prompt("p", {}, ANONYMOUS, known(answers)), reads.read("x://a", ANONYMOUS, known(answers))
        return [list(each.questions) if isinstance(each, InputNeeded) else each for each in made]

    assert outcomes({}) == [["count"]] * 2
    got, read = outcomes({"count": DECLINED})
    assert (got["messages"][0]["content"]["text"], read["contents"][0]["text"]) == ("decline", "decline")


def test_other_errors_are_raised_as_they_are() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def broken(visit: ReadContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(coroutine(visit))
            group.create_task(fail())
        return ""

    def empty_handed(visit: ReadContext) -> str:
        raise InputRequired

    for function, error in ((broken, BaseExceptionGroup), (empty_handed, InputRequired)):
        prompt(name=function.__name__)(function)
        with pytest.raises(error):
            reads.get_prompt(function.__name__, {}, ANONYMOUS, known())


def test_what_depends_on_answers_is_not_to_be_cached() -> None:
    @resource("x://{ask}", ttl_ms=60_000)
    def asks(ask: bool, visit: ReadContext) -> str:
        return how_many(visit).action if ask else ""

    read = [reads.read(f"x://{ask}", ANONYMOUS, known({"count": DECLINED})) for ask in ("true", "false")]
    assert [each["ttlMs"] for each in read if isinstance(each, dict)] == [0, 60_000]
