"""2026-07-28 basic/patterns/mrtr over HTTP: InputRequiredResult, and the retry with its answers.

The tests play the worker, step by step. Each `run` is a server process of its own.
"""

import re
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.requests import observation
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from mcp_app.transport.process import threads
from mcp_app.transport.serving.input_responses import REFUSED
from tests.support.asgi_client import META, Connection, call, post, run
from tests.support.failing_database import away_at_first
from tests.support.rows import everything
from tests.support.worker import Worker, eventually, in_thread, row

pytestmark = [
    pytest.mark.usefixtures("_settings", "_tools"),
    pytest.mark.django_db(transaction=True, databases="__all__"),
]

THREE = {"action": "accept", "content": {"n": 3}}
CLIENT = {META + "clientCapabilities": {"elicitation": {}}}


@pytest.fixture
def _settings(configure) -> None:
    configure(ALLOW_ANONYMOUS=True, ALLOWED_HOSTS=["testserver"], KEEP_ALIVE=10.0, SSE_AFTER=10.0, DRAIN_SECONDS=0.1)


@pytest.fixture
def _tools() -> Iterator[None]:
    with isolated_registries():

        @tool
        def work(text: str = "") -> str:
            """Return the text."""
            return text

        @tool
        def other(text: str = "") -> str:
            """Return the text, too."""
            return text

        yield


def retry(state: Any, request_id: Any = "retry", name: str = "work", answers: Any = None, **arguments: Any) -> Any:
    body = call(name, request_id, meta=CLIENT, **arguments)
    body["params"] |= {"inputResponses": {"n": THREE} if answers is None else answers, "requestState": state}
    return body


async def ask(worker: Worker, **questions: str) -> tuple[Request, dict[str, Any]]:
    """Return the row of a call that asks, and the result that its client got."""
    client = await post(call(meta=CLIENT))
    request_id = await worker.claim()
    assert await worker.ask(request_id, **(questions or {"n": "How many?"})) == Status.INPUT_REQUIRED
    return await row(request_id), (await client.json())["result"]


async def refused(connection: Connection) -> dict[str, Any]:
    error: dict[str, Any] = (await connection.json())["error"]
    assert (connection.status, error["code"]) == (200, -32602)
    return error


@pytest.mark.fault("D2")
async def test_a_call_that_asks_while_the_database_is_away_asks_once_it_is_back(
    worker: Worker, monkeypatch: Any
) -> None:
    monkeypatch.setattr(threads, "RETRY_SECONDS", 0.01)
    failures = away_at_first(monkeypatch, observation, "arguments")
    asking, result = await ask(worker)
    assert (result["resultType"], asking.cancel_requested_at) == ("input_required", None)
    assert next(failures, None) is None


async def test_a_call_that_asks_is_answered_with_its_questions_and_a_state(worker: Worker) -> None:
    asking, result = await ask(worker)
    assert result["resultType"] == "input_required"
    parsed = mcp_types.InputRequiredResult.model_validate(result)
    assert list(parsed.input_requests or {}) == ["n"]
    assert result["inputRequests"]["n"]["method"] == "elicitation/create"
    assert isinstance(result["requestState"], str)
    assert asking.status == Status.INPUT_REQUIRED
    assert "ttlMs" not in result


def test_the_retry_stands_alone_and_any_server_process_takes_it(worker: Worker) -> None:
    states: list[Any] = []

    async def first() -> None:
        asking, result = await ask(worker)
        states.extend([asking, result["requestState"]])

    async def second() -> None:
        asking, state = states
        client = await post(retry(state, 7))
        request_id = await worker.claim()
        assert request_id == asking.pk
        answered = await row(request_id)
        assert (answered.answers, answered.jsonrpc_id) == ({"n": THREE}, 7)
        assert answered.server != asking.server
        await worker.finish(request_id)
        answer = await client.json()
        assert (answer["id"], answer["result"]["resultType"]) == (7, "complete")

    run(first())
    run(second())


@pytest.mark.fault("G11")
async def test_a_state_is_used_once(worker: Worker) -> None:
    asking, result = await ask(worker)
    client = await post(retry(result["requestState"]))
    await worker.claim()
    before = await in_thread(everything, asking)
    error = await refused(await post(retry(result["requestState"], "again")))
    assert error["message"] == REFUSED
    assert await in_thread(everything, asking) == before
    await worker.finish(asking.pk)
    await client.json()
    assert await refused(await post(retry(result["requestState"], "late"))) == error


@pytest.mark.parametrize(
    "change",
    [
        {"state": "forged"},
        {"state": ""},
        {"name": "other"},
        {"text": "another argument"},
    ],
    ids=str,
)
async def test_a_state_that_does_not_belong_changes_nothing(worker: Worker, change: dict[str, Any]) -> None:
    asking, result = await ask(worker)
    before = await in_thread(everything, asking)
    body = retry(**{"state": result["requestState"], **change})
    assert (await refused(await post(body)))["message"] == REFUSED
    tampered = retry(result["requestState"] + "-TAMPERED")
    assert (await refused(await post(tampered)))["message"] == REFUSED
    assert await in_thread(everything, asking) == before
    assert await in_thread(Request.objects.count) == 1


async def test_an_expired_state_is_refused_in_the_same_words(worker: Worker, configure) -> None:
    asking, result = await ask(worker)
    configure(MAX_INPUT_SECONDS=-1.0)
    assert (await refused(await post(retry(result["requestState"]))))["message"] == REFUSED
    assert (await row(asking.pk)).status == Status.INPUT_REQUIRED


async def test_what_is_missing_is_asked_again_with_a_new_state_and_without_a_run(worker: Worker) -> None:
    _, result = await ask(worker, n="How many?", m="And how many more?")
    partly = retry(result["requestState"], answers={"n": THREE, "stray": {"action": "accept"}})
    again = (await (await post(partly)).json())["result"]
    assert (again["resultType"], list(again["inputRequests"])) == ("input_required", ["m"])
    assert again["requestState"] != result["requestState"]
    assert worker.idle()
    await refused(await post(partly))
    client = await post(retry(again["requestState"], answers={"m": {"action": "cancel"}}))
    request_id = await worker.claim()
    assert (await row(request_id)).answers == {"n": THREE, "m": {"action": "cancel"}}
    await worker.finish(request_id)
    assert (await client.json())["result"]["content"]


async def test_nothing_is_asked_again_of_a_client_that_does_not_declare_it_any_more(worker: Worker) -> None:
    asking, result = await ask(worker)
    before = await in_thread(everything, asking)
    body = retry(result["requestState"], answers={})
    body["params"]["_meta"][META + "clientCapabilities"] = {"elicitation": {"url": {}}}
    connection = await post(body)
    error = (await connection.json())["error"]
    assert (connection.status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    assert await in_thread(everything, asking) == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"n": 10}, "n: .*at most 9"),
        ({"n": "3"}, "n: .*integer"),
        ({}, 'must have "n"'),
        (None, 'must have "n"'),
        ({"n": True}, "n: .*integer"),
    ],
    ids=repr,
)
async def test_an_answer_that_does_not_fit_its_form_is_asked_again_with_the_reason(
    worker: Worker, content: Any, reason: str
) -> None:
    _, result = await ask(worker)
    answers = {"n": {"action": "accept", "content": content}}
    again = (await (await post(retry(result["requestState"], answers=answers))).json())["result"]
    assert again["resultType"] == "input_required"
    assert re.search(f"How many[?]\n\n.*{reason}", again["inputRequests"]["n"]["params"]["message"])


@pytest.mark.parametrize(
    "answers", [[], "n", {"n": 12345}, {"n": None}, {"n": {"action": "maybe"}}, {"n": {"content": {}}}], ids=repr
)
async def test_what_is_no_answer_is_an_error_that_leaves_the_round_open(worker: Worker, answers: Any) -> None:
    _, result = await ask(worker)
    error = await refused(await post(retry(result["requestState"], answers=answers)))
    assert "inputResponses" in error["message"]
    client = await post(retry(result["requestState"]))
    await worker.finish(await worker.claim())
    assert (await client.json())["result"]["content"]


@pytest.mark.parametrize("member", [{"inputResponses": []}, {"requestState": {}}, {"requestState": 1}], ids=str)
async def test_mistyped_params_are_refused(worker: Worker, member: dict[str, Any]) -> None:
    body = call()
    body["params"] |= member
    await refused(await post(body))
    assert worker.idle()


async def test_answers_that_come_with_the_first_request_are_there_when_they_are_asked_for(worker: Worker) -> None:
    body = call(meta=CLIENT)
    body["params"]["inputResponses"] = {"n": THREE}
    client = await post(body)
    request_id = await worker.claim()
    assert (await row(request_id)).answers == {"n": THREE}
    await worker.finish(request_id)
    await client.json()


async def test_the_end_of_an_answered_connection_is_no_cancellation(worker: Worker) -> None:
    client = await post(call(meta=CLIENT))
    request_id = await worker.claim()
    await worker.ask(request_id, n="How many?")
    state = (await client.json())["result"]["requestState"]
    await client.leave()
    assert (await row(request_id)).cancel_requested_at is None
    leaving = await post(retry(state))
    await worker.claim()
    await leaving.leave()
    stored = await row(request_id)
    assert (stored.status, stored.cancel_cause) == (Status.RUNNING, Cause.DISCONNECT)
    await worker.finish(request_id, Status.CANCELLED)


async def test_questions_that_could_not_be_delivered_cancel_their_request(worker: Worker, configure: Any) -> None:
    configure(STALL_TIMEOUT=0.05)
    await post(call(meta=CLIENT), unsent=lambda: 1 << 40)
    request_id = await worker.claim()
    await worker.ask(request_id, n="How many?")
    stored = await eventually(lambda: Request.objects.filter(pk=request_id, status=Status.CANCELLED).first())
    assert stored.cancel_cause == Cause.DISCONNECT


async def test_a_client_whose_call_was_cancelled_while_it_asked_is_told_so(worker: Worker) -> None:
    asking, result = await ask(worker)
    options = {"cause": Cause.ADMIN, "actor": Actor("root"), "reason": "too late"}
    await in_thread(cancellation.cancel, asking.pk, **options)
    told = (await (await post(retry(result["requestState"]))).json())["result"]
    assert told["isError"]
    assert all(fact in told["content"][0]["text"] for fact in ("cancelled", "administrator", "too late"))
