"""The site's authenticator runs off the event loop, and no credential leaks."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, connections

from mcp_app.auth.authentication import HeaderFields, HTTPConnection, InvalidCredentialsError
from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation.cancellation import cancel
from mcp_app.models import Request
from mcp_app.states import Cause, Outcome, Status
from tests.support.asgi_client import call, message, post, run
from tests.support.worker import Worker, in_thread, row

SECRET = "sk-secret"
CREDENTIALS = {"Authorization": f"Bearer {SECRET}"}

Answer = Callable[[HTTPConnection], Any]
_answers: list[Answer] = []


def authenticator(connection: HTTPConnection) -> Any:
    return _answers[-1](connection)


async def coroutine_authenticator(connection: HTTPConnection) -> None: ...


@pytest.fixture
def answer(configure: Any) -> Callable[[Answer], None]:
    """Returns a function that sets the function that the site's authenticator calls."""

    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.authenticator")
    return _answers.append


def status_of(headers: dict[str, str] = CREDENTIALS) -> tuple[int, str]:
    """Return the status of a small request, and the message of the error, if any."""
    found: list[tuple[int, str]] = []

    async def scenario() -> None:
        client = await post(message("tools/list"), headers=headers)
        said = await client.json()
        found.append((client.status, said.get("error", {}).get("message", "")))

    run(scenario())
    return found[0]


def test_call_is_its_users(answer: Any, worker: Worker) -> None:
    ada = get_user_model().objects.create_user("ada")
    answer(lambda connection: get_user_model().objects.get(username="ada"))

    async def scenario() -> None:
        client = await post(call(), headers=CREDENTIALS)
        request_id = await worker.claim()
        await worker.finish(request_id)
        assert (await client.json())["result"]["content"][0]["text"] == "done"
        stored = await row(request_id)
        assert (stored.issuer, stored.subject, stored.principal_label) == ("django", str(ada.pk), "ada")
        assert stored.user_id == str(ada.pk)
        assert SECRET not in repr(vars(stored))

    run(scenario())


async def test_principal_of_the_sites_own_is_taken_as_it_is(answer: Any, worker: Worker) -> None:
    answer(lambda connection: Principal(issuer="partners", subject="7", client_id="robot", label="Robot 7"))
    client = await post(call(), headers=CREDENTIALS)
    request_id = await worker.claim()
    await worker.finish(request_id)
    await client.json()
    stored = await row(request_id)
    assert (stored.issuer, stored.subject, stored.client_id, stored.user_id) == ("partners", "7", "robot", "")


@pytest.mark.fault("G5")
def test_another_users_call_cannot_be_cancelled(answer: Any, worker: Worker) -> None:
    users = {name: get_user_model().objects.create_user(name) for name in ("ada", "eve")}
    answer(lambda connection: users[connection.headers["x-name"]])

    async def scenario() -> None:
        client = await post(call(), headers={"X-Name": "ada"})
        request_id = await worker.claim()
        eve = Principal(issuer="django", subject=str(users["eve"].pk), client_id="", label="eve")
        outcome = await in_thread(cancel, request_id, cause=Cause.CLIENT, actor=Actor("eve"), principal=eve)
        assert outcome == Outcome.DENIED
        await worker.finish(request_id)
        await client.json()
        assert (await row(request_id)).status == Status.COMPLETED

    run(scenario())


@pytest.mark.fault("G3")
@pytest.mark.parametrize("nobody", [None, AnonymousUser()])
def test_nobody_is_challenged(answer: Any, nobody: object) -> None:
    answer(lambda connection: nobody)
    assert status_of()[0] == 401


def test_inactive_user_is_nobody(answer: Any) -> None:
    get_user_model().objects.create_user("ada", is_active=False)
    answer(lambda connection: get_user_model().objects.get(username="ada"))
    assert status_of()[0] == 401
    assert not Request.objects.exists()


def test_nobody_is_anonymous_where_the_settings_allow_it(answer: Any, configure: Any) -> None:
    answer(lambda connection: None)
    configure(ALLOW_ANONYMOUS=True)
    assert status_of()[0] == 200


def test_authenticator_is_given_what_says_who_asks_and_cannot_change_it(answer: Any) -> None:
    seen: list[HTTPConnection] = []
    answer(seen.append)
    status_of({**CREDENTIALS, "X-Key": "7"})

    [connection] = seen
    assert (connection.path, connection.remote_address) == ("/mcp", "192.0.2.1")
    assert connection.headers["X-KEY"] == connection.headers["x-key"] == "7"
    assert SECRET not in repr(connection)
    with pytest.raises(FrozenInstanceError):
        connection.path = "/"  # type: ignore[misc]
    with pytest.raises(TypeError):
        connection.headers["x-key"] = "8"  # type: ignore[index]


def test_doubled_field_is_nobodys_key() -> None:
    fields = HeaderFields([(b"X-Key", b" 7 "), (b"x-key", b"8")])
    assert dict(fields) == {"x-key": "7, 8"}


def unknown_key(connection: HTTPConnection) -> Any:
    return {}[connection.headers["authorization"]]


def own_complaint(connection: HTTPConnection) -> Any:
    raise ValueError(f"bad key {connection.headers['authorization']}")


def no_user(connection: HTTPConnection) -> Any:
    return True


def no_subject(connection: HTTPConnection) -> Any:
    return Principal(issuer="partners", subject="", client_id="", label="")


def long_subject(connection: HTTPConnection) -> Any:
    return Principal(issuer="partners", subject="x" * 256, client_id="", label="")


@pytest.mark.parametrize("failing", [unknown_key, own_complaint, no_user, no_subject, long_subject])
def test_authenticator_that_fails_tells_nobody_a_credential(
    answer: Any, caplog: pytest.LogCaptureFixture, failing: Answer
) -> None:
    answer(failing)
    with caplog.at_level(logging.DEBUG):
        status, said = status_of()
    assert status == 500
    assert SECRET not in said
    assert f"{__name__}.authenticator failed" in caplog.text
    assert SECRET not in caplog.text


def test_async_authenticator_is_refused(configure: Any, caplog: pytest.LogCaptureFixture) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.coroutine_authenticator")
    assert status_of()[0] == 500
    assert "a coroutine" in caplog.text


async def test_slow_authenticator_delays_nobody_who_has_been_let_in(answer: Any, configure: Any) -> None:
    release, asked = threading.Event(), threading.Event()

    def wait(connection: HTTPConnection) -> None:
        asked.set()
        release.wait(30)

    answer(wait)
    client = await post(message("tools/list"), headers=CREDENTIALS)
    await asyncio.to_thread(asked.wait, 30)
    configure(ALLOW_ANONYMOUS=True, AUTHENTICATOR=None)
    other = await post(message("tools/list"))
    await other.json()
    release.set()
    await client.json()
    assert (other.status, client.status) == (200, 200)


async def test_authenticator_that_does_not_answer_is_given_up(answer: Any, configure: Any) -> None:
    release = threading.Event()
    answer(lambda connection: release.wait(30))
    configure(AUTHENTICATION_TIMEOUT=0.1)
    client = await post(message("tools/list"), headers=CREDENTIALS)
    await client.json()
    release.set()
    assert client.status == 503
    assert client.headers["retry-after"] == "1"


async def test_authenticator_whose_database_is_away_is_asked_again_later(answer: Any, caplog: Any) -> None:
    def away(connection: HTTPConnection) -> None:
        raise OperationalError("the server closed the connection unexpectedly")

    answer(away)
    client = await post(message("tools/list"), headers=CREDENTIALS)
    told = await client.json()
    assert (client.status, client.headers["retry-after"]) == (503, "1")
    assert "unexpectedly" not in str(told)
    assert all(fact in caplog.text for fact in ("authenticator", "not reach the database", "unexpectedly"))


async def test_nothing_is_left_to_do_for_whom_nobody_waits_any_more(answer: Any, configure: Any) -> None:
    release, asked = threading.Event(), []

    def hang(connection: HTTPConnection) -> None:
        asked.append(connection)
        release.wait(30)

    answer(hang)
    configure(AUTHENTICATION_TIMEOUT=0.2)
    clients = [await post(message("tools/list"), headers=CREDENTIALS) for _ in range(12)]
    for client in clients:
        await client.json()
        assert client.status == 503
    began = len(asked)
    release.set()
    answer(lambda connection: Principal(issuer="tests", subject="ada", client_id="", label="ada"))
    client = await post(message("tools/list"), headers=CREDENTIALS)
    await client.json()
    assert (client.status, len(asked)) == (200, began)
    assert began < len(clients)


@pytest.mark.fault("D4")
def test_database_connections_are_not_kept_longer_than_the_site_says(answer: Any) -> None:
    used: list[Any] = []

    def look(connection: HTTPConnection) -> None:
        get_user_model().objects.exists()
        wrapper = connections["default"]
        wrapper.close_at = 0  # as if CONN_MAX_AGE had passed
        used.append(wrapper)

    answer(look)
    assert status_of()[0] == 401
    [wrapper] = used
    assert wrapper.connection is None


@pytest.mark.fault("G3")
async def test_bad_credentials_are_no_anonymous_call(answer: Any, configure: Any) -> None:
    def refuse(connection: HTTPConnection) -> None:
        raise InvalidCredentialsError

    answer(refuse)
    configure(ALLOW_ANONYMOUS=True)
    client = await post(message("tools/list"), headers=CREDENTIALS)
    said = await client.json()
    assert (client.status, said["error"]["code"]) == (401, 401)
    assert client.headers["www-authenticate"] == 'Bearer error="invalid_token"'
