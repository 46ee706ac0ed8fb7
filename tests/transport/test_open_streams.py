"""Open listen streams have rows, through which other processes find and close them."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError

from mcp_app.catalogue import tool_rows
from mcp_app.lifecycle.sessions import listen_streams
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import ListenStream
from mcp_app.transport import server
from mcp_app.transport.watching import open_streams
from tests.support.asgi_client import META, message, post, run
from tests.support.worker import in_thread
from tests.transport.test_listening import SUBSCRIPTION, listen_to_tools

pytestmark = pytest.mark.usefixtures("_at_once")


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_streams, "BATCH_SECONDS", 0.01)
    monkeypatch.setattr(open_streams, "RETRY_SECONDS", 0.01)


async def known(number: int) -> list[ListenStream]:
    """Wait until there are `number` rows, and return them."""
    async with asyncio.timeout(10):
        while True:
            found = await in_thread(lambda: list(ListenStream.objects.all()))
            if len(found) == number:
                return found
            await asyncio.sleep(0.01)


async def test_an_open_stream_is_known_by_who_what_and_where_until_it_ends() -> None:
    info = {"name": "editor", "version": "3"}
    wanted = {"toolsListChanged": True, "taskIds": [str(uuid4())]}
    meta = {META + "clientInfo": info, META + "clientCapabilities": {"extensions": {META + "tasks": {}}}}
    client = await post(message("subscriptions/listen", meta=meta, notifications=wanted))
    [row] = await known(1)
    assert (row.client_name, row.protocol_version, row.remote_address) == ("editor 3", "2026-07-28", "192.0.2.1")
    assert (row.server, row.endpoint) == (server.current().identity.boot_id, "default")
    assert row.filter == {"toolsListChanged": True}
    await client.leave()
    await known(0)


async def test_a_stream_that_is_closed_from_elsewhere_ends_with_its_result_and_the_others_go_on() -> None:
    closed = await listen_to_tools("mine")
    [mine] = [row.pk for row in await known(1)]
    other = await listen_to_tools("other")
    await known(2)
    assert await in_thread(lambda: listen_streams.close([mine], by="Ada")) == 1
    assert await in_thread(lambda: listen_streams.close([mine], by="Eve")) == 0
    [final] = await closed.rest()
    assert (final["id"], final["result"]["_meta"][SUBSCRIPTION]) == ("mine", "mine")
    await known(1)
    await in_thread(tool_rows.touch)
    assert (await other.next_message())["method"] == "notifications/tools/list_changed"
    await other.leave()


async def test_the_wish_is_found_without_any_wake_up(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(POLL_INTERVAL=0.02)
    monkeypatch.setattr("mcp_app.lifecycle.liveness.wakeups.wake_server", lambda *told: None)
    client = await listen_to_tools()
    [row] = await known(1)
    await in_thread(lambda: listen_streams.close([row.pk], by="Ada"))
    [final] = await client.rest()
    assert "result" in final


async def test_a_stream_whose_row_cannot_be_written_is_served_and_is_known_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, failing = listen_streams.store, True

    def refuse(*args: Any) -> None:
        if failing:
            raise OperationalError("the disk is full")
        store(*args)

    monkeypatch.setattr(listen_streams, "store", refuse)
    client = await listen_to_tools()
    await in_thread(tool_rows.touch)
    assert (await client.next_message())["method"] == "notifications/tools/list_changed"
    failing = False
    await known(1)
    await client.leave()


async def test_many_that_open_at_once_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    store, batches = listen_streams.store, []

    def count(opened: Any, ended: Any) -> None:
        batches.append(len(opened))
        store(opened, ended)

    monkeypatch.setattr(open_streams, "BATCH_SECONDS", 0.5)
    monkeypatch.setattr(listen_streams, "store", count)
    clients = [await listen_to_tools(number) for number in range(10)]
    await known(10)
    assert len(batches) <= 3
    for client in clients:
        await client.leave()


def test_the_streams_of_a_dead_server_process_are_forgotten(configure: Any) -> None:
    ListenStream.objects.create(server=uuid4(), principal_label="Ada", protocol_version="2026-07-28")
    rounds.supervise()
    assert ListenStream.objects.count() == 1
    configure(LOST_AFTER=0.0)
    rounds.supervise()
    assert not ListenStream.objects.exists()


def test_a_process_that_ends_forgets_its_streams() -> None:
    async def scenario() -> None:
        await listen_to_tools()
        await known(1)

    run(scenario())
    assert not ListenStream.objects.exists()
