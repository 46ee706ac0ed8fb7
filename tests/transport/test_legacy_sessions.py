"""Sessions of the legacy era: beginning, id, limits and end (basic/lifecycle, basic/transports)."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.sessions import sessions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request, Session
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import Cause, Status
from mcp_app.transport.serving import callers
from tests.support.asgi_client import run
from tests.support.legacy_asgi_client import Client, Stream, call, notification, request
from tests.support.worker import Worker, eventually, in_thread, row


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_initialize_opens_a_session_of_the_revision_asked_for(version: str) -> None:
    client = Client(version, capabilities={"sampling": {}})
    answer = await client.initialize()
    assert answer["result"]["protocolVersion"] == version
    assert answer["result"]["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
    assert answer["result"]["serverInfo"].keys() >= {"name", "version"}
    assert answer["result"].keys() <= {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    assert re.fullmatch(r"[\x21-\x7e]{32,}", client.session or "")
    stored = await in_thread(Session.objects.get)
    assert (stored.protocol_version, stored.client_capabilities) == (version, {"sampling": {}})
    assert stored.client_info == {"name": "test", "version": "1"}


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_a_servers_icons_are_shown_to_clients_that_know_of_icons(configure, version: str) -> None:
    icons = [{"src": "https://example.com/mcp.png"}]
    configure(SERVER_ICONS=icons)
    shown = (await Client(version).initialize())["result"]["serverInfo"].get("icons")
    assert shown == (icons if version == "2025-11-25" else None)


@pytest.mark.parametrize("asked", ["2024-11-05", "2026-07-28", "1.0"])
async def test_another_version_is_answered_with_the_newest_that_has_a_handshake(asked: str) -> None:
    answer = await Client(asked).initialize()
    assert answer["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    "wrong", [{"protocolVersion": 1}, {"capabilities": []}, {"capabilities": None}, {"clientInfo": {"name": "x"}}]
)
async def test_a_malformed_initialize_opens_nothing(wrong: dict[str, Any]) -> None:
    client = Client()
    answer = await client.initialize(**wrong)
    assert answer["error"]["code"] == -32602
    assert client.session is None
    assert not await in_thread(Session.objects.exists)


async def test_a_session_answers_and_a_ping_is_answered_with_nothing() -> None:
    client = await Client.opened()
    assert (await client.ask("ping"))["result"] == {}
    listed = await client.ask("tools/list")
    assert {tool["name"] for tool in listed["result"]["tools"]} == {"work", "regional", "inquisitive"}
    assert listed["result"].keys() == {"tools"}


async def test_a_session_is_opened_once() -> None:
    client = await Client.opened()
    again = await client.post(request("initialize"))
    assert again.status == 400


async def test_an_unknown_method_is_told_with_200_because_404_means_a_lost_session() -> None:
    client = await Client.opened()
    answer = await client.post(request("server/discover"))
    assert answer.status == 200
    assert json.loads(await answer.body())["error"]["code"] == -32601


@pytest.mark.parametrize("named", ["0" * 32, "x", "ABCDEF" * 5 + "AB", "-"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_session_nobody_knows_is_404(named: str, method: str) -> None:
    client = Client(session=named)
    answer = {"GET": client.get, "DELETE": client.delete}.get(method, lambda: client.post(request("ping")))
    found = await answer()
    assert found.status == 404
    assert "id" not in (error := json.loads(await found.body())) or error["id"] == 1


@pytest.mark.fault("G5")
async def test_anothers_session_is_not_found_in_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    client = await Client.opened()
    unknown = await (await Client(session="0" * 32).post(request("ping"))).body()
    other = Principal("https://issuer", "someone", "client", "someone")
    monkeypatch.setattr(callers, "authenticate_anonymous", lambda connection: other)
    for method in (client.get, client.delete):
        assert (await method()).status == 404
    stolen = await client.post(request("ping"))
    assert (stolen.status, await stolen.body()) == (404, unknown)
    assert await in_thread(Session.objects.exists)


async def test_a_get_or_delete_without_a_session_is_405() -> None:
    for method in ("get", "delete"):
        answer = await getattr(Client(), method)()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        modern = await getattr(Client("2026-07-28", session="0" * 32), method)()
        assert modern.status == 405


async def test_delete_ends_the_session_and_its_calls(worker: Worker) -> None:
    client = await Client.opened()
    answer = await client.post(call())
    request_id = await worker.claim()
    assert (await client.delete()).status == 200
    stopped = await row(request_id)
    assert (stopped.cancel_cause, stopped.cancel_actor) == (Cause.CLIENT, "anonymous")
    await worker.finish(request_id, Status.CANCELLED)
    await answer.head()
    assert await answer.events() == []
    assert (await client.post(request("ping"))).status == 404


async def test_an_idle_session_ends_and_one_with_a_call_does_not(worker: Worker) -> None:
    idle, busy = await Client.opened(), await Client.opened()
    await busy.post(call())
    request_id = await worker.claim()
    long_ago = timezone.now() - timedelta(days=400)
    await in_thread(Session.objects.update, seen_at=long_ago)
    assert (await idle.post(request("ping"))).status == 404
    await in_thread(rounds.supervise)
    left = await in_thread(lambda: [session.pk.hex for session in Session.objects.all()])
    assert left == [busy.session]
    assert (await busy.ask("ping"))["result"] == {}
    assert (await in_thread(Session.objects.get)).seen_at > long_ago
    await worker.finish(request_id)


async def test_one_session_too_many_ends_the_one_that_was_silent_for_longest(configure: Any) -> None:
    configure(MAX_SESSIONS_PER_PRINCIPAL=2)
    first, second = await Client.opened(), await Client.opened()
    await in_thread(sessions.Session.objects.filter(pk=first.session).update, seen_at=timezone.now())
    third = await Client.opened()
    statuses = [(await client.post(request("ping"))).status for client in (first, second, third)]
    assert statuses == [200, 404, 200]


async def test_busy_sessions_are_not_ended_for_a_new_one(worker: Worker, configure: Any) -> None:
    configure(MAX_SESSIONS_PER_PRINCIPAL=1)
    busy = await Client.opened()
    await busy.post(call())
    request_id = await worker.claim()
    refused = await Client().initialize()
    assert refused["error"]["code"] == 429
    await worker.finish(request_id)


async def test_the_log_level_is_kept_and_steers_the_calls_that_follow(worker: Worker) -> None:
    client = await Client.opened()
    assert (await client.ask("logging/setLevel", level="warning"))["result"] == {}
    answer = await client.post(call())
    request_id = await worker.claim()
    await worker.log(request_id, "info", "error")
    await worker.finish(request_id)
    await answer.head()
    told = [event.message for event in await answer.events() if event.message]
    assert [message["params"]["data"] for message in told[:-1]] == ["error"]
    assert (await client.ask("logging/setLevel", level="loud"))["error"]["code"] == -32602


async def test_what_needs_a_session_says_so() -> None:
    answer = await Client().post(request("logging/setLevel", level="info"))
    assert answer.status == 400


async def test_notifications_and_answers_are_accepted_without_a_body() -> None:
    client = await Client.opened()
    for body in (notification("notifications/anything"), {"jsonrpc": "2.0", "id": 5, "result": {}}):
        answer = await client.post(body)
        assert (answer.status, await answer.body()) == (202, b"")


async def test_a_client_without_a_session_is_served_and_cancels_by_leaving(worker: Worker) -> None:
    for version in ("", "2025-06-18"):
        client = Client(version)
        listed = await client.ask("tools/list")
        assert "resultType" not in listed["result"]
        answer = await client.post(call(), accept="application/json")
        request_id = await worker.claim()
        stored = await row(request_id)
        assert (stored.protocol_version, stored.session) == (version or "2025-03-26", None)
        await answer.leave()
        left = await eventually(lambda pk=request_id: Request.objects.get(pk=pk).cancel_cause)
        assert left == Cause.DISCONNECT
        await worker.finish(request_id, Status.CANCELLED)


def test_features_newer_than_the_session_are_left_out(worker: Worker) -> None:
    async def scenario() -> None:
        for version, expected in (("2025-03-26", set()), ("2025-06-18", {"title"}), ("2025-11-25", {"title", "icons"})):
            client = await Client.opened(version)
            [tool] = [each for each in (await client.ask("tools/list"))["result"]["tools"] if each["name"] == "titled"]
            assert tool.keys() & {"title", "icons", "outputSchema"} == expected

    from mcp_types import Icon

    from mcp_app.catalogue.registry import tool

    @tool(title="Titled", icons=[Icon(src="https://example.com/i.png")])
    def titled() -> str:
        """Have a title."""
        return ""

    run(scenario())


async def test_a_get_that_takes_no_event_stream_is_406() -> None:
    client = await Client.opened()
    stream = Stream("GET", headers={"Accept": "application/json", "Mcp-Session-Id": client.session or ""})
    await stream.send(b"")
    await stream.head()
    assert stream.status == 406
