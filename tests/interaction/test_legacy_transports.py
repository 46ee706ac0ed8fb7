"""2025-11-25 and earlier, basic/transports, basic/utilities/cancellation, server/utilities/logging.

Calls, resuming, the GET stream and batches are tested in `tests/transport/test_legacy_….py`.
"""

import json
from itertools import product
from typing import Any

import pytest

from mcp_app.catalogue import tool_rows
from mcp_app.models import Request
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.transport.legacy import methods
from tests.interaction.revisions import run_each
from tests.support.legacy_asgi_client import Client, Event, Stream, call, notification, request
from tests.support.stdio_client import connect
from tests.support.worker import Worker, in_thread, row
from tests.transport.legacy_questions import THREE, next_question, opened, start_asking_call

pytestmark = pytest.mark.usefixtures("work_tool")


UNREADABLE = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}}
LATEST = LEGACY_REVISIONS[-1]


def messages(events: list[Event]) -> list[Any]:
    return [event.message for event in events if event.message]


async def whole(answer: Stream) -> Any:
    return json.loads(await answer.body())


async def listening(client: Client) -> tuple[Stream, Event]:
    """Return a GET stream and its first event, which has no message."""
    stream = await client.get()
    first = await stream.next_event()
    assert first.message is None
    return stream, first


def test_sending_messages_an_error_without_an_id_is_accepted_and_dropped() -> None:
    async def scenario(version: str) -> None:
        client = await Client.opened(version)
        for message in (UNREADABLE, {**UNREADABLE, "id": None}):
            answer = await client.post(message)
            assert (answer.status, await answer.body()) == (202, b"")
        assert (await client.post({"jsonrpc": "2.0", "result": {}})).status == 400
        async with connect() as piped:
            await piped.send(UNREADABLE)
            await piped.open_session(version)
            await piped.send(UNREADABLE, {**UNREADABLE, "id": None})
            assert (await piped.ask_in_session("ping"))["result"] == {}

    run_each(scenario)


async def test_sending_messages_an_id_is_echoed_with_its_type() -> None:
    client = await Client.opened()
    for method, request_id in product(("ping", "unheard/of"), (0, -1, "", "0", "é", 2**53)):
        answer = await whole(await client.post(request(method, request_id)))
        assert (type(answer["id"]), answer["id"]) == (type(request_id), request_id)


async def test_listening_what_belongs_to_a_call_is_on_its_own_stream_and_no_response_is_elsewhere(
    worker: Worker,
) -> None:
    client = await Client.opened()
    await client.ask("logging/setLevel", level="info")
    stream, _ = await listening(client)
    answer = await client.post(call(token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await worker.log(request_id, "info")
    await worker.finish(request_id)
    await answer.head()
    told = messages(await answer.events())
    assert [each.get("method") for each in told] == ["notifications/progress", "notifications/message", None]
    await client.delete()
    assert messages(await stream.events()) == []


async def test_logging_levels_are_the_session_s_and_of_the_calls_that_follow(worker: Worker) -> None:
    loud, quiet = await Client.opened(), await Client.opened()
    await loud.ask("logging/setLevel", level="notice")
    for client, expected in ((loud, ["notice", "alert"]), (quiet, [])):
        answer = await client.post(call())
        request_id = await worker.claim()
        await worker.log(request_id, "info", "notice", "alert")
        await worker.finish(request_id)
        if expected:
            await answer.head()
            told = messages(await answer.events())
            assert [each["params"]["level"] for each in told[:-1]] == expected
        else:
            assert "result" in await answer.json()


async def test_resumability_no_two_events_of_a_session_have_one_id(worker: Worker) -> None:
    client = await opened()
    ids = []
    for number in range(2):
        stream, first = await listening(client)
        ids.append(first.id)
        await in_thread(tool_rows.touch)
        ids.append((await next_question(stream, "notifications/tools/list_changed")).id)
        _, answer = await start_asking_call(client, worker, "a", "b", request_id=number, token="t")
        questions = [await next_question(answer) for _ in range(2)]
        for question in questions:
            await client.reply(question.message["id"], THREE)
        claimed = await worker.claim()
        await worker.report(claimed, 1)
        await worker.finish(claimed)
        ids += [event.id for event in [*questions, *await answer.events()]]
        await stream.leave()
    assert len(ids) == len(set(ids)) == 12
    assert all(ids)


async def test_resumability_ids_of_the_server_s_requests_are_unique_in_the_session(worker: Worker) -> None:
    client = await opened()
    names = []
    for number in range(2):
        request_id, stream = await start_asking_call(client, worker, "a", "b", request_id=number)
        names += [(await next_question(stream)).message["id"] for _ in range(2)]
        await client.post(notification("notifications/cancelled", requestId=number))
        await stream.events()
        assert (await row(request_id)).cancel_requested_at
    assert len(set(names)) == 4


@pytest.mark.fault("B9")
def test_cancellation_initialize_is_not_cancelled() -> None:
    async def scenario(version: str) -> None:
        async with connect() as piped:
            info = {"name": "test", "version": "1"}
            opening = request("initialize", 1, protocolVersion=version, capabilities={}, clientInfo=info)
            await piped.send(opening, notification("notifications/cancelled", requestId=1))
            assert (await piped.receive())["result"]["protocolVersion"] == version
            assert (await piped.ask_in_session("ping"))["result"] == {}

    run_each(scenario)


async def test_session_management_initialize_is_for_once_and_by_itself() -> None:
    client = await Client.opened(LATEST)
    info = {"name": "test", "version": "1"}
    again = request("initialize", protocolVersion=LATEST, capabilities={}, clientInfo=info)
    async with connect() as piped:
        await piped.open_session()
        await piped.send(again)
        refused = await piped.receive()
    for error in (refused["error"], (await whole(await client.post(again)))["error"]):
        assert (error["code"], error["message"]) == (-32600, methods.REPEATED)
    assert not await in_thread(Request.objects.exists)
