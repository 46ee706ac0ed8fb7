"""A stream whose caller's credential is revoked while it is open."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcp_app.auth.authentication import HTTPConnection
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import tool_rows
from mcp_app.transport.serving import callers
from mcp_app.transport.subscriptions import stream as listen_stream
from tests.support.asgi_client import Connection, message, post
from tests.support.legacy_asgi_client import Client
from tests.support.worker import in_thread

pytestmark = pytest.mark.usefixtures("_authenticated")


ADA = Principal(issuer="tests", subject="ada", client_id="", label="ada")
CREDENTIALS = {"Authorization": "Bearer sk-secret"}

_answer: list[Callable[[], Principal | None]] = [lambda: None]


def authenticator(connection: HTTPConnection) -> Principal | None:
    return _answer[0]()


@pytest.fixture
def _authenticated(configure: Any) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.authenticator")
    now_it_is(ADA)


def now_it_is(principal: Principal | None) -> None:
    _answer[0] = lambda: principal


def now_it_fails(times: int | None = None) -> list[int]:
    """Make the authenticator fail `times` times, or always. The returned list grows with each failure."""
    failures: list[int] = []

    def fail() -> Principal:
        if times is not None and len(failures) == times:
            return ADA
        failures.append(1)
        raise ConnectionError("the directory is away")

    _answer[0] = fail
    return failures


async def listening() -> Connection:
    client = await post(message("subscriptions/listen", notifications={"toolsListChanged": True}), headers=CREDENTIALS)
    await client.head()
    assert client.status == 200
    assert (await client.next_message())["method"] == "notifications/subscriptions/acknowledged"
    return client


@pytest.mark.fault("E8")
@pytest.mark.parametrize("now", [None, Principal(issuer="tests", subject="eve", client_id="", label="eve")])
async def test_E8_a_listener_whose_token_is_revoked_is_told_nothing_more_and_its_stream_ends(
    now: Principal | None,
) -> None:
    client = await listening()
    await in_thread(tool_rows.touch)
    assert (await client.next_message())["method"] == "notifications/tools/list_changed"
    now_it_is(now)
    await in_thread(tool_rows.touch)
    [final] = await client.rest()
    assert final["result"]["resultType"] == "complete"


@pytest.mark.fault("E8")
async def test_E8_a_listener_whose_token_lost_a_scope_is_told_nothing_more_and_its_stream_ends() -> None:
    now_it_is(replace(ADA, scopes=frozenset({"read", "write"})))
    client = await listening()
    now_it_is(replace(ADA, scopes=frozenset({"read"})))
    await in_thread(tool_rows.touch)
    [final] = await client.rest()
    assert "result" in final


@pytest.mark.fault("E8")
async def test_E8_a_silent_stream_ends_too_once_its_token_is_revoked(configure: Any) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.authenticator", CONFIRM_AFTER=0.2)
    client = await listening()
    now_it_is(None)
    [final] = await client.rest()
    assert "result" in final


@pytest.mark.fault("E8")
async def test_E8_the_stream_of_a_session_whose_token_is_revoked_ends_untold() -> None:
    stream = await (await Client.opened()).get()
    assert (await stream.next_event()).message is None
    now_it_is(None)
    await in_thread(tool_rows.touch)
    assert [event.message for event in await stream.events()] == [None]


async def test_an_authenticator_that_fails_for_a_moment_costs_no_stream_and_no_change(monkeypatch: Any) -> None:
    monkeypatch.setattr(listen_stream, "ASK_AGAIN_SECONDS", 0.05)
    client = await listening()
    failures = now_it_fails(times=3)
    await in_thread(tool_rows.touch)
    assert (await client.next_message())["method"] == "notifications/tools/list_changed"
    assert len(failures) == 3
    await client.leave()


async def test_an_authenticator_that_fails_for_long_ends_the_stream(monkeypatch: Any, configure: Any) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.authenticator", CONFIRM_AFTER=0.05)
    monkeypatch.setattr(callers, "ASK_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(callers, "UNCONFIRMED_SECONDS", 0.3)
    client = await listening()
    now_it_fails()
    [final] = await client.rest()
    assert "result" in final
