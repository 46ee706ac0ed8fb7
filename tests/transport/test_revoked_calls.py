"""Open calls and reads whose caller loses access: nothing more is sent, and the call is cancelled."""

import json
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User

from mcp_app.auth import tokens
from mcp_app.models import Cancellation, Token
from mcp_app.resources import Form, ReadContext, resource
from mcp_app.states import Cause, Outcome, Status
from mcp_app.transport.serving import callers, exchange
from tests.support.asgi_client import PATIENCE, Connection, call, message, post
from tests.support.legacy_asgi_client import Client, steps
from tests.support.legacy_asgi_client import call as legacy_call
from tests.support.legacy_asgi_client import request as legacy_request
from tests.support.worker import NUMBER, Worker, eventually, in_thread, row
from tests.transport.legacy_questions import next_question, opened
from tests.transport.test_revoked import ADA, now_it_fails, now_it_is

pytestmark = pytest.mark.usefixtures("_authenticated")


AUTHENTICATOR = "tests.transport.test_revoked.authenticator"
OFTEN = 0.1
"""Seconds."""


@pytest.fixture
def _authenticated(configure: Any) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=AUTHENTICATOR, KEEP_ALIVE=OFTEN, SSE_AFTER=OFTEN)
    now_it_is(ADA)


def confirming_often(configure: Any) -> None:
    configure(
        ALLOW_ANONYMOUS=False, AUTHENTICATOR=AUTHENTICATOR, KEEP_ALIVE=OFTEN, SSE_AFTER=OFTEN, CONFIRM_AFTER=OFTEN
    )


async def attempt_on(request_id: UUID) -> Cancellation:
    found: Cancellation = await in_thread(Cancellation.objects.get, request_id=request_id)
    return found


async def assert_revoked(request_id: UUID) -> None:
    """Check that the row and the audit name the reason for the cancellation."""
    await eventually(lambda: Cancellation.objects.filter(request_id=request_id).exists())
    assert (await row(request_id)).cancel_cause == Cause.REVOKED
    attempt = await attempt_on(request_id)
    assert (attempt.cause, attempt.outcome, attempt.actor) == (Cause.REVOKED, Outcome.ACCEPTED, "system")
    assert all(fact in attempt.reason for fact in ("credential", "no longer accepted"))


async def test_a_running_call_of_a_revoked_caller_is_sent_nothing_more_and_is_cancelled(
    worker: Worker, configure: Any
) -> None:
    confirming_often(configure)
    client = await post(call(meta={"progressToken": "t"}))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await client.head()
    assert (await client.next_message())["params"]["progress"] == 1
    now_it_is(None)
    await eventually(lambda: Cancellation.objects.filter(request_id=request_id).exists())
    await worker.report(request_id, 2)
    [final] = await client.rest()
    assert final["error"]["code"] == 401
    assert final["id"] == 1
    await assert_revoked(request_id)


async def test_a_queued_call_of_a_revoked_caller_never_runs(worker: Worker, configure: Any) -> None:
    confirming_often(configure)
    client = await post(call(), accept="application/json")
    request_id = await worker.receive()
    now_it_is(None)
    assert (await client.json())["error"]["code"] == 401
    assert client.status == 401
    assert client.headers["www-authenticate"].startswith("Bearer")
    assert (await row(request_id)).status == Status.CANCELLED


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
async def test_the_result_is_kept_from_a_caller_who_was_revoked_before_it(worker: Worker, accept: str) -> None:
    client = await post(call(), accept=accept)
    request_id = await worker.claim()
    now_it_is(None)
    await worker.finish(request_id, text="secret")
    await client.head()
    answer = await client.body()
    assert b"secret" not in answer
    assert b'"code":401' in answer
    attempt = await attempt_on(request_id)
    assert (attempt.cause, attempt.outcome) == (Cause.REVOKED, Outcome.TOO_LATE)
    assert (await row(request_id)).status == Status.COMPLETED


async def test_a_question_is_kept_from_a_caller_who_was_revoked_before_it(worker: Worker) -> None:
    client = await post(call(meta={"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}))
    request_id = await worker.claim()
    now_it_is(None)
    assert await worker.ask(request_id, n="secret?") == Status.INPUT_REQUIRED
    await client.head()
    assert b"secret" not in await client.body()
    await assert_revoked(request_id)


def _revoked(token: Token, user: User) -> None:
    tokens.revoke([token.prefix], by="tests")


def _expired(token: Token, user: User) -> None:
    Token.objects.filter(pk=token.pk).update(expires_at=token.created_at)


def _narrowed(token: Token, user: User) -> None:
    Token.objects.filter(pk=token.pk).update(scopes=[])


def _inactive(token: Token, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _deleted(token: Token, user: User) -> None:
    user.delete()


def _without_group(token: Token, user: User) -> None:
    user.groups.clear()


@pytest.mark.parametrize("change", [_revoked, _expired, _narrowed, _inactive, _deleted, _without_group])
async def test_each_way_to_lose_access_ends_an_open_call(
    worker: Worker, configure: Any, change: Callable[[Token, User], None]
) -> None:
    configure(
        ALLOW_ANONYMOUS=False,
        AUTHENTICATOR="mcp_app.auth.tokens.bearer",
        GROUPS=["callers"],
        CONFIRM_AFTER=OFTEN,
        SSE_AFTER=OFTEN,
    )

    def made() -> tuple[Token, User, str]:
        user = get_user_model().objects.create_user("ada")
        user.groups.add(Group.objects.get_or_create(name="callers")[0])
        issued = tokens.issue(user, "laptop", by="tests", scopes=["read"])
        return issued.row, user, issued.text

    token, user, text = await in_thread(made)
    client = await post(call(), headers={"Authorization": f"Bearer {text}"})
    request_id = await worker.claim()
    await in_thread(change, token, user)
    assert (await _last(client))["error"]["code"] == 401
    await assert_revoked(request_id)


@pytest.mark.parametrize("in_session", [True, False])
async def test_an_older_clients_call_ends_too(worker: Worker, configure: Any, in_session: bool) -> None:
    confirming_often(configure)
    client = await Client.opened() if in_session else Client()
    stream = await client.post(legacy_call(token="t"))
    request_id = await worker.claim()
    await stream.head()
    now_it_is(None)
    await eventually(lambda: Cancellation.objects.filter(request_id=request_id).exists())
    await worker.report(request_id, 1)
    messages = [event.message for event in await stream.events() if event.message]
    assert [answer["error"]["code"] for answer in messages] == [401]
    await assert_revoked(request_id)


async def test_a_resumed_call_ends_too(worker: Worker) -> None:
    client = await Client.opened()
    stream = await client.post(legacy_call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await stream.head()
    prime = await stream.next_event()
    await stream.leave()
    resumed = await client.get(prime.id)
    assert steps([await resumed.next_event()]) == [1]
    now_it_is(None)
    await worker.finish(request_id, text="secret")
    assert b"secret" not in await resumed.body()
    assert (await attempt_on(request_id)).cause == Cause.REVOKED


async def test_each_call_of_a_batch_ends_too(worker: Worker) -> None:
    client = await Client.opened("2025-03-26")
    stream = await client.post([legacy_call(request_id="a"), legacy_call(request_id="b")], accept="application/json")
    first, second = await worker.claim(), await worker.claim()
    now_it_is(None)
    for request_id in (first, second):
        await worker.finish(request_id, text="secret")
    await stream.head()
    answers = json.loads(await stream.body())
    assert [answer["error"]["code"] for answer in answers] == [401, 401]


async def test_a_read_is_kept_from_a_caller_who_was_revoked_while_it_ran() -> None:
    begun, go_on = threading.Event(), threading.Event()

    @resource("x://slow")
    def slow() -> str:
        begun.set()
        assert go_on.wait(PATIENCE)
        return "secret"

    client = await post(message("resources/read", uri="x://slow"))
    assert await in_thread(begun.wait, PATIENCE)
    now_it_is(None)
    go_on.set()
    assert (await client.json())["error"]["code"] == 401
    assert client.status == 401


async def test_a_read_that_waits_for_its_user_ends_too(configure: Any) -> None:
    confirming_often(configure)

    @resource("x://asks")
    def asks(visit: ReadContext) -> str:
        return str(visit.ask(n=Form("Which?", NUMBER)))

    client = await opened()
    stream = await client.post(legacy_request("resources/read", uri="x://asks"))
    await next_question(stream)
    now_it_is(None)
    messages = [event.message for event in await stream.events() if event.message]
    assert messages[-1]["error"]["code"] == 401


async def test_an_authenticator_that_fails_for_a_moment_delays_the_result(worker: Worker, monkeypatch: Any) -> None:
    monkeypatch.setattr(exchange, "ASK_AGAIN_SECONDS", 0.05)
    client = await post(call())
    request_id = await worker.claim()
    failures = now_it_fails(times=3)
    await worker.finish(request_id)
    assert (await _last(client))["result"]["content"][0]["text"] == "done"
    assert len(failures) == 3
    assert not await in_thread(Cancellation.objects.exists)


async def test_an_authenticator_that_fails_for_long_cancels_the_call(
    worker: Worker, configure: Any, monkeypatch: Any
) -> None:
    confirming_often(configure)
    monkeypatch.setattr(exchange, "ASK_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(callers, "UNCONFIRMED_SECONDS", 0.4)
    client = await post(call())
    request_id = await worker.claim()
    now_it_fails()
    assert (await _last(client))["error"]["code"] == 503
    attempt = await attempt_on(request_id)
    assert attempt.cause == Cause.REVOKED
    assert all(fact in attempt.reason for fact in ("credential", "not be confirmed", " 0.4 s"))


async def _last(client: Connection) -> Any:
    """Return the response, as JSON or as the last event of a stream."""
    await client.head()
    if client.headers["content-type"] == "application/json":
        return json.loads(await client.body())
    return (await client.rest())[-1]
