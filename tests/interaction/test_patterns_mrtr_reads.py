"""2026-07-28 basic/patterns/mrtr in `prompts/get` and `resources/read`: only the state keeps
answers.

Each request is served by a server process of its own, except over stdio.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from mcp_types.methods import validate_server_result
from pydantic import BaseModel, Field

from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.models import Request
from mcp_app.prompts import ReadContext, prompt
from mcp_app.protocol.revisions import LEGACY, LEGACY_REVISIONS, MODERN
from mcp_app.resources import resource
from mcp_app.transport.serving.input_responses import REFUSED
from mcp_app.transport.serving.request_state import Origin, seal
from tests.interaction.answers import answer
from tests.support.asgi_client import META, message, post, run
from tests.support.legacy_asgi_client import Client
from tests.support.stdio_client import connect

pytestmark = pytest.mark.usefixtures("runs")


ABLE = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
DECLINED = {"action": "decline"}
THREE = {"action": "accept", "content": {"n": 3}}


class Count(BaseModel):
    n: int = Field(ge=1, le=9)


@pytest.fixture
def runs() -> list[str]:
    """The runs so far. `plan` asks twice; `other` and the notes of a day ask once."""
    runs: list[str] = []

    @prompt
    def plan(visit: ReadContext, about: str = "it") -> str:
        runs.append(about)
        number = visit.once("number", lambda: len(runs))
        first = visit.elicit("first", "How many?", Count)
        if first.content is None:
            return f"none of {about}"
        second = visit.elicit("second", f"And after {first.content.n}?", Count)
        return f"{number}: {first.content.n}, {second.action} of {about}"

    @prompt
    def other(visit: ReadContext, about: str = "it") -> str:
        runs.append("other")
        return visit.elicit("first", "How many?", Count).action

    @resource("notes://{day}")
    async def notes(day: str, visit: ReadContext) -> str:
        runs.append(day)
        return f"{visit.elicit('first', 'How many?', Count).action} on {day}"

    return runs


def get(name: str = "plan", *, meta: Any = None, state: Any = None, answers: Any = None, **arguments: str) -> Any:
    return answer("prompts/get", meta=meta or ABLE, name=name, arguments=arguments, **brought(state, answers))


def read(uri: str, *, state: Any = None, answers: Any = None) -> Any:
    return answer("resources/read", meta=ABLE, uri=uri, **brought(state, answers))


def brought(state: Any, answers: Any) -> dict[str, Any]:
    members = {"requestState": state, "inputResponses": answers}
    return {name: value for name, value in members.items() if value is not None}


def asks(answered: Mapping[str, Any], *keys: str) -> str:
    """Return the state of a result that asks for exactly these."""
    result = answered["result"]
    assert (result["resultType"], list(result["inputRequests"])) == ("input_required", list(keys))
    assert "ttlMs" not in result
    return str(result["requestState"])


def text(answered: Mapping[str, Any]) -> str:
    result = answered["result"]
    assert result["resultType"] == "complete"
    [said] = [each["content"] for each in result.get("messages", ())] or result["contents"]
    return str(said["text"])


def refused(answered: Mapping[str, Any]) -> str:
    assert answered["error"]["code"] == -32602
    return str(answered["error"]["message"])


def test_a_prompt_runs_again_with_each_answer_and_is_given_what_it_did_once(runs: list[str]) -> None:
    first = get(about="x")
    validate_server_result("prompts/get", MODERN, first["result"])
    state = asks(first, "first")
    then = get(about="x", state=state, answers={"first": THREE})
    assert then["result"]["inputRequests"]["second"]["params"]["message"] == "And after 3?"
    later = asks(then, "second")
    assert later != state
    assert text(get(about="x", state=later, answers={"second": DECLINED})) == "1: 3, decline of x"
    assert runs == ["x"] * 3
    assert not Request.objects.exists()


def test_a_resource_of_a_template_asks_in_a_coroutine(runs: list[str]) -> None:
    first = read("notes://monday")
    validate_server_result("resources/read", MODERN, first["result"])
    ended = read("notes://monday", state=asks(first, "first"), answers={"first": DECLINED})
    assert text(ended) == "decline on monday"
    assert (ended["result"]["ttlMs"], ended["result"]["cacheScope"]) == (0, "private")
    assert runs == ["monday", "monday"]


def test_a_state_gives_the_same_once_more_until_it_expires(runs: list[str], configure: Any) -> None:
    state = asks(get(), "first")
    for _ in range(2):
        assert text(get(state=state, answers={"first": DECLINED})) == "none of it"
    configure(MAX_INPUT_SECONDS=-1.0)
    assert refused(get(state=state, answers={"first": DECLINED})) == REFUSED
    assert len(runs) == 3


@pytest.mark.parametrize(
    "retry",
    [
        lambda state: get(state="forged"),
        lambda state: get(state=""),
        lambda state: get(state=state + "-TAMPERED"),
        lambda state: get(state=state, about="another argument"),
        lambda state: get("other", state=state),
        lambda state: read("notes://plan", state=state),
        lambda state: get(state=_of_a_call()),
    ],
    ids=["forged", "empty", "tampered", "other arguments", "another prompt", "a resource", "a call's"],
)
def test_a_state_that_does_not_belong_runs_nothing(runs: list[str], retry: Callable[[str], Any]) -> None:
    state = asks(get(), "first")
    runs.clear()
    assert refused(retry(state)) == REFUSED
    assert not runs


def _of_a_call() -> str:
    return seal(["0" * 32, 1], Origin(ANONYMOUS, "tools/call", "plan", {}))


def by_header(connection: Any) -> Principal:
    return Principal("site", connection.headers["Authorization"], "", "")


async def test_a_state_is_of_nobody_s_use_to_others(configure: Any, runs: list[str]) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.by_header")

    async def plan(who: str, **params: Any) -> Any:
        body = message("prompts/get", meta=ABLE, name="plan", **params)
        return await (await post(body, headers={"Authorization": who})).json()

    state = asks(await plan("ada"), "first")
    given = {"requestState": state, "inputResponses": {"first": DECLINED}}
    assert refused(await plan("bob", **given)) == REFUSED
    assert text(await plan("ada", **given)) == "none of it"


def test_what_is_missing_or_does_not_fit_is_asked_again_without_a_run(runs: list[str]) -> None:
    state = asks(get(), "first")
    asks(get(state=state), "first")
    asks(get(state=state, answers={"stray": DECLINED}), "first")
    unfit = get(state=state, answers={"first": {"action": "accept", "content": {"n": 10}}})
    question, reason = unfit["result"]["inputRequests"]["first"]["params"]["message"].split("\n\n")
    assert question == "How many?"
    assert "n: " in reason
    assert "at most 9" in reason
    assert len(runs) == 1
    ended = get(state=asks(unfit, "first"), answers={"first": DECLINED, "second": DECLINED, "stray": 1})
    assert text(ended) == "none of it"


@pytest.mark.parametrize("answers", [[], "n", {"first": 12345}, {"first": {"action": "maybe"}}], ids=repr)
def test_what_is_no_answer_is_an_error(runs: list[str], answers: Any) -> None:
    state = asks(get(), "first")
    assert "inputResponses" in refused(get(state=state, answers=answers))
    assert len(runs) == 1


def test_answers_that_come_with_the_first_request_are_there_when_they_are_asked_for() -> None:
    later = asks(get(answers={"first": THREE}), "second")
    assert text(get(state=later, answers={"second": DECLINED})) == "1: 3, decline of it"
    asks(get(answers={"first": 12345}), "first")


def test_a_client_that_cannot_be_asked_is_told_what_to_declare(runs: list[str]) -> None:
    unable = {META + "clientCapabilities": {"elicitation": {"url": {}}}}
    needed = {"requiredCapabilities": {"elicitation": {"form": {}}}}

    async def scenario() -> None:
        connection = await post(message("prompts/get", meta=unable, name="plan"))
        error = (await connection.json())["error"]
        assert (connection.status, error["code"], error["data"]) == (400, -32021, needed)

    run(scenario())
    state = asks(get(), "first")
    error = get(state=state, meta=unable)["error"]
    assert (error["code"], error["data"]) == (-32021, needed)
    assert len(runs) == 2


def test_answers_that_are_too_large_to_be_carried_are_refused(configure: Any) -> None:
    @prompt
    def endless(visit: ReadContext) -> str:
        said = visit.sample("first", "Say something.", max_tokens=10_000)
        return str(said) + visit.elicit("second", "Is it right?", Count).action

    able = {META + "clientCapabilities": {"elicitation": {}, "sampling": {}}}
    configure(MAX_REQUEST_STATE_BYTES=2_000)
    state = asks(get("endless", meta=able), "first")
    long = {"role": "assistant", "content": {"type": "text", "text": "x" * 2_000}, "model": "m"}
    error = get("endless", meta=able, state=state, answers={"first": long})["error"]
    assert error["code"] == -32603
    assert "2000 bytes" in error["message"]


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
def test_an_older_client_that_cannot_be_asked_is_told_so_and_its_state_means_nothing(version: str) -> None:
    state = asks(get(), "first")

    async def scenario() -> None:
        client = await Client.opened(version)
        given = {"requestState": state, "inputResponses": {"first": DECLINED}}
        for method, params in (("prompts/get", {"name": "plan"}), ("resources/read", {"uri": "notes://monday"})):
            error = (await client.ask(method, **params, **given))["error"]
            assert error["code"] == -32600
            if LEGACY[version].elicitation:
                assert error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
            else:
                assert all(fact in error["message"] for fact in ("for input", f"MCP {version}"))

    run(scenario())


def test_supported_requests_are_three_and_whatever_else_asks_has_failed(runs: list[str]) -> None:
    def ask(visit: ReadContext, value: str = "") -> Any:
        runs.append(visit.elicit("first", "How many?", Count).action)

    prompt(name="completed", completions={"about": lambda value, visit: ask(visit)})(lambda about="": about)
    resource("mine://{name}", members=ask)(lambda name: name)
    reference = {"ref": {"type": "ref/prompt", "name": "completed"}, "argument": {"name": "about", "value": ""}}
    for method, params in (("completion/complete", reference), ("resources/list", {})):
        assert answer(method, meta=ABLE, **params)["error"]["code"] == -32603
    prompt(name="chosen", available=ask)(lambda: "")
    assert answer("prompts/list", meta=ABLE)["error"]["code"] == -32603
    assert not runs


async def test_a_prompt_asks_over_stdio() -> None:
    async with connect() as client:
        state = asks(await client.ask("prompts/get", 1, meta=ABLE, name="plan"), "first")
        given = {"requestState": state, "inputResponses": {"first": DECLINED}}
        assert text(await client.ask("prompts/get", 2, meta=ABLE, name="plan", **given)) == "none of it"
        assert refused(await client.ask("prompts/get", 3, meta=ABLE, name="other", **given)) == REFUSED


def test_the_result_of_a_retry_is_in_no_cache_whether_its_run_asked_or_not() -> None:
    asks = [True]

    @resource("notes://shared", ttl_ms=60_000)
    def shared(visit: ReadContext) -> str:
        return visit.elicit("first", "How many?", Count).action if asks else "not asked"

    state = answer("resources/read", meta=ABLE, uri="notes://shared")["result"]["requestState"]
    asks.clear()
    responses = {"first": THREE}
    retried = answer("resources/read", meta=ABLE, uri="notes://shared", inputResponses=responses, requestState=state)
    assert (retried["result"]["ttlMs"], retried["result"]["cacheScope"]) == (0, "private")
    assert answer("resources/read", meta=ABLE, uri="notes://shared")["result"]["ttlMs"] == 60_000
