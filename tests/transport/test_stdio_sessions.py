"""A legacy client over stdio: its session, the era of each line, and batches (2025-11-25 and earlier)."""

import asyncio
from typing import Any

import pytest
from django.db import OperationalError

from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import audiences, tool_rows
from mcp_app.models import Request, Session
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.states import Cause, Status
from mcp_app.transport import shutdown
from mcp_app.transport.stdio import peer
from tests.support.legacy_asgi_client import call, notification, request
from tests.support.stdio_client import connect
from tests.support.worker import Worker, eventually, in_thread, row

CHANGED = notification("notifications/tools/list_changed")


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "logging/setLevel", "server/discover"])
async def test_before_initialize_only_a_ping_is_answered(method: str) -> None:
    async with connect() as client:
        refused = await client.ask_in_session(method)
        assert refused["error"]["code"] == -32600
        assert "initialize" in refused["error"]["message"]
        assert (await client.ask_in_session("ping"))["result"] == {}
        assert "capabilities" in await client.open_session()


async def test_a_session_is_kept_by_the_connection_and_nowhere_else(worker: Worker) -> None:
    async with connect() as client:
        await client.open_session("2025-06-18", roots={})
        await client.send(call())
        stored = await row(await worker.claim())
        assert (stored.protocol_version, stored.client_capabilities) == ("2025-06-18", {"roots": {}})
        assert (stored.client_info["name"], stored.session) == ("test", None)
        assert not await in_thread(Session.objects.exists)
        await worker.finish(stored.pk)
        assert "result" in await client.receive()


async def test_what_follows_initialize_on_its_heels_is_of_the_revision_that_it_negotiates() -> None:
    async with connect() as client:
        info = {"name": "test", "version": "1"}
        opening = request("initialize", 0, protocolVersion="2025-03-26", capabilities={}, clientInfo=info)
        await client.send(opening, request("tools/list", 1), [request("ping", 2)])
        answers = [await client.receive() for _ in range(3)]
        assert answers[0]["result"]["protocolVersion"] == "2025-03-26"
        assert {"jsonrpc": "2.0", "id": 2, "result": {}} in next(each for each in answers if isinstance(each, list))
        assert "result" in next(each for each in answers[1:] if isinstance(each, dict))


async def test_a_session_is_begun_once_and_goes_on() -> None:
    async with connect() as client:
        await client.open_session()
        info = {"name": "other", "version": "1"}
        again = await client.ask_in_session(
            "initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo=info
        )
        assert again["error"]["code"] == -32600
        assert "tools" in (await client.ask_in_session("tools/list"))["result"]


async def test_a_modern_request_is_served_as_such_before_and_after_initialize() -> None:
    async with connect() as client:
        assert "supportedVersions" in (await client.ask("server/discover"))["result"]
        assert (await client.ask("initialize"))["error"]["code"] == -32601
        await client.open_session()
        assert (await client.ask("tools/list"))["result"]["resultType"] == "complete"
        assert "resultType" not in (await client.ask_in_session("tools/list"))["result"]
        assert (await client.ask("ping"))["error"]["code"] == -32601
        assert (await client.ask_in_session("server/discover"))["error"]["code"] == -32601


async def test_initialize_and_ping_are_answered_before_the_site_is_ready_and_the_rest_afterwards() -> None:
    caller: asyncio.Future[Principal] = asyncio.get_running_loop().create_future()
    async with connect(caller) as client:
        await client.open_session()
        await client.send(request("tools/list", "listed"))
        assert (await client.ask_in_session("ping"))["result"] == {}
        assert (await client.ask_in_session("logging/setLevel", level="info"))["result"] == {}
        caller.set_result(local_principal())
        answer = await client.receive()
        assert (answer["id"], "tools" in answer["result"]) == ("listed", True)


async def test_a_client_that_leaves_has_its_work_stopped(worker: Worker) -> None:
    async with connect() as client:
        await client.open_session()
        await client.send(call(request_id=1), call(request_id=2))
        running, queued = await worker.claim(), await worker.receive()
        await client.leave()
        stopping, closed = await row(running), await row(queued)
        assert (stopping.status, stopping.cancel_cause) == (Status.RUNNING, Cause.DISCONNECT)
        assert (closed.status, closed.cancel_cause) == (Status.CANCELLED, Cause.DISCONNECT)
        await worker.finish(running, Status.CANCELLED)


async def test_a_shutdown_tells_how_the_call_ended_and_ends_the_notifications(worker: Worker) -> None:
    async with connect() as client:
        await client.open_session()
        await client.send(call())
        request_id = await worker.claim()
        stopping = asyncio.create_task(shutdown.drain())
        await eventually(Request.objects.filter(cancel_cause=Cause.SHUTDOWN).exists)
        await worker.finish(request_id, Status.CANCELLED)
        assert (await client.receive())["result"]["isError"]
        await stopping
        await in_thread(tool_rows.touch)
        assert (await client.ask_in_session("ping"))["result"] == {}


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_an_array_is_a_batch_in_the_one_revision_that_has_them(version: str) -> None:
    async with connect() as client:
        await client.open_session(version)
        await client.send([request("ping", 1), request("unheard/of", 2), notification("notifications/unheard"), 5])
        answers = await client.receive()
        if version != "2025-03-26":
            assert answers["error"]["code"] == -32600
            return
        told = {answer.get("id"): answer for answer in answers}
        assert told[1]["result"] == {}
        assert [told[of]["error"]["code"] for of in (2, None)] == [-32601, -32600]


async def test_the_answers_of_a_batch_are_one_line_and_what_is_said_before_is_not(worker: Worker) -> None:
    async with connect() as client:
        await client.open_session("2025-03-26")
        await client.send([call(request_id=1, token="t"), call(request_id=2), request("ping", 3)])
        calls = {(await row(pk)).jsonrpc_id: pk for pk in (await worker.claim(), await worker.claim())}
        await worker.report(calls[1], 1)
        assert (await client.receive())["method"] == "notifications/progress"
        await client.cancel(2)
        await eventually(Request.objects.filter(cancel_requested_at__isnull=False).exists)
        await worker.finish(calls[2], Status.CANCELLED)
        await worker.finish(calls[1])
        assert {answer["id"] for answer in await client.receive()} == {1, 3}


@pytest.mark.parametrize(
    "sent", [[notification("notifications/unheard")], [{"jsonrpc": "2.0", "id": "s", "result": {}}]]
)
async def test_a_batch_without_requests_is_answered_with_nothing(sent: Any) -> None:
    async with connect() as client:
        await client.open_session("2025-03-26")
        await client.send(sent)
        assert (await client.ask_in_session("ping"))["result"] == {}


async def test_of_two_requests_with_one_id_in_a_batch_one_is_refused(worker: Worker) -> None:
    async with connect() as client:
        await client.open_session("2025-03-26")
        await client.send([call(request_id=1), call(request_id=1)])
        await worker.finish(await worker.claim())
        assert sorted("result" in answer for answer in await client.receive()) == [False, True]


async def test_changes_are_told_once_the_client_is_initialized() -> None:
    async with connect() as client:
        info = {"name": "test", "version": "1"}
        await client.ask_in_session("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        assert "tools" in (await client.ask_in_session("tools/list"))["result"]
        await in_thread(tool_rows.touch)
        assert (await client.ask_in_session("ping"))["result"] == {}
        await client.send(notification("notifications/initialized"))
        assert await client.receive() == CHANGED
        assert "resultType" in (await client.ask("tools/list"))["result"]


async def test_an_answer_that_nobody_waits_for_is_dropped_in_a_session_and_refused_without() -> None:
    answer = {"jsonrpc": "2.0", "id": "late", "result": {}}
    async with connect() as client:
        await client.send(answer)
        assert (await client.receive())["error"]["code"] == -32600
        await client.open_session()
        await client.send(answer)
        assert (await client.ask_in_session("ping"))["result"] == {}


async def test_a_change_is_told_once_it_is_known_again_whom_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def visible_to(principal: Principal, changed: Any) -> set[str]:
        asked.append(changed)
        if len(asked) == 1:
            raise OperationalError("the database is away")
        return audiences_visible_to(principal, changed)

    audiences_visible_to = audiences.visible_to
    monkeypatch.setattr(audiences, "visible_to", visible_to)
    monkeypatch.setattr(peer, "ASK_AGAIN_SECONDS", 0.0)
    async with connect() as client:
        await client.open_session()
        await client.ask_in_session("tools/list")
        await in_thread(tool_rows.touch)
        assert await client.receive() == CHANGED
